"""The command line and the screen."""
