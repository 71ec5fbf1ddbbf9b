"""States of tasks in sentences, the same everywhere."""

from __future__ import annotations

_SAID = {
    "succeeded": "has succeeded", "failed": "has failed", "cancelled": "was cancelled", "cached": "was done earlier",
    "backoff": "waits for its next attempt",
}  # fmt: skip


def stands(state: str) -> str:
    """ "is queued", "has succeeded": after a task's name."""
    return _SAID.get(state, f"is {state}")
