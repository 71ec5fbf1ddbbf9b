"""Tells people away from the terminal what became of a deck, through apprise and a command of theirs."""
