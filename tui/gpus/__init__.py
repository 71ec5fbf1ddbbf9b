"""GPU panes as lines. Pure."""
