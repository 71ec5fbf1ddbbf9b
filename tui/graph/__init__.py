"""The graph of rounds and needs as lines. Pure."""
