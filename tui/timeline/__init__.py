"""GPUs over time as lines. Pure."""
