"""Attempts of tasks: started, followed while they run, judged when they have ended, and what is written of them."""
