"""Begins: from slots that were taken to a process that runs, on this box at once, on a cluster when it has room."""

from __future__ import annotations

from . import events as e
from . import inputs as i
from .deck import Task
from .ends import arm_timeout
from .phases import Attempt
from .turn import Turn


def submitted(turn: Turn, item: i.Submitted) -> None:
    found = _of(turn, item.token)
    if found is not None and found[1].job != item.job:
        task, attempt = found
        turn.record(e.AttemptSubmitted(task.name, attempt.number, item.job))


def pending(turn: Turn, item: i.Pending) -> None:
    found = _of(turn, item.token)
    if found is None or found[1].began:
        return
    task, attempt = found
    if (attempt.pending, attempt.begins) != (item.why, item.begins):
        attempt.pending, attempt.begins = item.why, item.begins
        turn.deck.moved.add(task.index)


def spawned(turn: Turn, item: i.Spawned) -> None:
    found = _of(turn, item.token)
    if found is None:
        return
    task, attempt = found
    if not attempt.where:
        turn.record(e.AttemptRunning(task.name, attempt.number, item.pid, item.start_ticks, item.pid_ns))
    elif not attempt.began:
        _began(turn, task, attempt, item)
    else:
        return
    arm_timeout(turn.deck, task, attempt, task.begun_policy, turn.at)


def _began(turn: Turn, task: Task, attempt: Attempt, item: i.Spawned) -> None:
    """Its time counts from here. Clocks of nodes differ: it began after it was handed over, and not in the future."""
    at = turn.at if item.at is None else max(attempt.at, min(item.at, turn.at))
    wall = turn.wall - (turn.at - at)
    turn.record(
        e.AttemptRunning(
            task.name, attempt.number, item.pid, item.start_ticks, item.pid_ns, item.job or attempt.job, item.nodes,
            at, wall,
        )
    )  # fmt: skip


def _of(turn: Turn, token: str) -> tuple[Task, Attempt] | None:
    task = turn.deck.active.get(token)
    attempt = task.attempt() if task else None
    return None if task is None or attempt is None else (task, attempt)
