"""The log view."""
