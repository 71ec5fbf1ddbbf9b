"""The task table."""
