"""A deck looked at without an engine, from its files alone."""
