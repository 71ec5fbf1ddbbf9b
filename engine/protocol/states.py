"""States of tasks that belong together, for all who read rows: commands, summaries, the screen."""

from __future__ import annotations

from ..text import pairs_text
from .rows import TaskRow

ACTIVE = frozenset({"starting", "running", "stopping", "closing"})
"""An attempt is under way."""
WAITING = frozenset({"waiting", "queued", "backoff"})
"""The next attempt starts without a user."""
YET_TO_START = frozenset({"waiting", "queued", "blocked"})
"""What an earlier attempt had and took is told with the attempts, not in the task's row."""
DONE = frozenset({"succeeded", "cached"})
FAILED = frozenset({"failed", "unknown"})
"""What a user should look at."""
ENDED = DONE | {"failed", "cancelled", "pruned"}
SETTLED = ENDED | {"blocked"}
"""States that last until a user does something."""

PENDING = "pending"
"""What people read for `starting` where a cluster has taken an attempt and not begun it."""


def may_change(row: TaskRow, *, ended: bool) -> bool:
    """Something will become of it without a user. *ended*: the run has."""
    return not (ended or row.left_out or row.state == "unknown" or row.state in SETTLED)


def is_pending(row: TaskRow) -> bool:
    """A cluster has its attempt and has not begun it, or does not take it for now."""
    return row.state == "starting" and bool(row.job or row.pending)


def given_text(row: TaskRow) -> str:
    """ "with lr=0.5", of what `retry --set` has given it; "" for the file's own values."""
    return f"with {pairs_text(row.given)}" if row.given else ""


def reason_text(row: TaskRow) -> str:
    """Why its newest attempt ended so, "before: …" where another one follows; under which other name it was done; ""
    of what has succeeded."""
    if row.state == "succeeded" or not row.reason:
        return ""
    follows = (row.state in ACTIVE and row.kind) or row.state in ("waiting", "queued")
    return f"before: {row.reason}" if follows else row.reason


def shown_state(row: TaskRow) -> str:
    """A row's state as people read it."""
    return PENDING if is_pending(row) else row.state
