"""Threads between the screen and an engine."""
