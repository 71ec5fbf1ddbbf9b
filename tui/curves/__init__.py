"""Metrics over time: read, reduced, drawn."""
