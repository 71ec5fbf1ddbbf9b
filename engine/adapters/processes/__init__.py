"""Attempts' processes: started, seen to end, stopped with their whole trees, found again."""
