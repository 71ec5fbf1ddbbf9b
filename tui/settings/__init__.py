"""The user's own settings: themes and keys."""
