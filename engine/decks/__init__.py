"""A deck opened: its task file, state, GPUs, and what earlier engines left."""
