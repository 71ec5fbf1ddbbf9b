"""A deck's state folder: where it lies, who holds it, what is kept in it."""
