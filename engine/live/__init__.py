"""An edit of the task file reaches the deck that runs: watched, shown as a plan, applied."""
