"""An engine's socket: who attaches, what clients see, what they may ask."""
