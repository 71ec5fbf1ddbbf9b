"""States of tasks that belong together, for all who read rows: commands, summaries, the screen."""

from __future__ import annotations

ACTIVE = frozenset({"starting", "running", "stopping", "closing"})
"""An attempt is under way."""
WAITING = frozenset({"waiting", "queued", "backoff"})
"""The next attempt starts without a user."""
DONE = frozenset({"succeeded", "cached"})
FAILED = frozenset({"failed", "unknown"})
"""What a user should look at."""
ENDED = DONE | {"failed", "cancelled"}
