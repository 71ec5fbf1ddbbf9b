"""Pure and deterministic: the state of a deck and every decision about it. No clock, no I/O."""
