"""What the log view shows, without any screen: files over byte offsets, escapes, searching."""
