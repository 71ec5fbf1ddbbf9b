"""A deck as one HTML file that needs nothing else: gathered from what is on disk, then drawn. Only `gather` reads."""
