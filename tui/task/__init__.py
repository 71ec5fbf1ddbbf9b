"""One task: its attempts, what they left, its page as lines."""
