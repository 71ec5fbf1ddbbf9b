"""The command line: words become a command."""
