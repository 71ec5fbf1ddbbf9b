"""Commands that look at a deck or act on it, a module each: `run(command)` does it and returns the exit code."""
