"""What a headless run prints: lines, the live display, JSON lines, JUnit, GitHub's annotations. Made of nothing but the
messages of `protocol.messages`."""
