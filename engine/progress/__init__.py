"""What the logs of running attempts tell: progress, metrics, watch rules."""
