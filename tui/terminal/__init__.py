"""The terminal, which nobody waits for."""
