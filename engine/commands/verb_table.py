"""The verbs that act on tasks: whom each means, and why it means nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..protocol.states import ACTIVE, ENDED
from ..protocol.wire import TaskRow


@dataclass(frozen=True, slots=True)
class Act:
    """One of the verbs: whom it means, and how it is told."""

    may: Callable[[TaskRow], bool]
    """It does something to such a task."""
    done: Callable[[TaskRow], bool]
    """Such a task is already as it would be."""
    refusal: str
    """Why it does nothing to other ones: "only what has ended can be retried"."""


def _always(_: TaskRow) -> bool:
    return True


def _never(_: TaskRow) -> bool:
    return False


ACTS: dict[str, Act] = {
    "retry": Act(
        lambda row: row.left_out or row.state in ENDED or row.state in ("backoff", "unknown"),
        _never,
        "only what has ended can be retried",
    ),
    "cancel": Act(
        lambda row: row.state not in ENDED,
        lambda row: row.state == "cancelled",
        "only what has not ended can be cancelled",
    ),
    "kill": Act(
        lambda row: row.state not in ENDED,
        lambda row: row.state == "cancelled",
        "only what has not ended can be killed",
    ),
    "hold": Act(
        lambda row: row.state not in ENDED and not row.held,
        lambda row: row.held,
        "only what has not ended can be held",
    ),
    "release": Act(lambda row: row.held, lambda row: not row.held, "it is not held"),
    "priority": Act(_always, _never, ""),
    "accept": Act(
        lambda row: row.changed or row.stale or row.state in ACTIVE,
        lambda row: not (row.changed or row.stale),
        "only what is changed or stale has something to accept",
    ),
}
