"""Marks beside a task's phase: held, changed, stale; pending. Asked by rows, selectors and counts; each answer is a
look-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .deck import Deck, Task
from .marks import is_of_other_work
from .phases import Starting

Flag = Literal["held", "changed", "stale"]


@dataclass(frozen=True, slots=True)
class FlagCounts:
    """How many tasks bear each flag."""

    held: int = 0
    changed: int = 0
    stale: int = 0


def is_changed(deck: Deck, task: Task) -> bool:
    """It is finished, and its newest attempt (or what it was found done as) is of other work than the file now says.
    Of a task that the run leaves out `is_of_other_work` tells that."""
    return task.index in deck.marks.changed


def changed_ones(deck: Deck) -> list[Task]:
    """All tasks of which `is_changed` holds, in their order."""
    return [deck.tasks[index] for index in sorted(deck.marks.changed)]


def is_stale(deck: Deck, task: Task) -> bool:
    """It succeeded, and something that it builds on has succeeded again since."""
    return task.index in deck.marks.stale


def is_pending(task: Task) -> bool:
    """A cluster has its attempt and has not begun it."""
    return isinstance(task.phase, Starting) and bool(task.phase.attempt.job) and not task.phase.attempt.began


def flags(deck: Deck, task: Task) -> tuple[Flag, ...]:
    """The flags that a task bears, also one that the run leaves out."""
    found: list[Flag] = []
    if task.held:
        found.append("held")
    if is_of_other_work(task):
        found.append("changed")
    if task.index in deck.marks.stale:
        found.append("stale")
    return tuple(found)


def count_flags(deck: Deck) -> FlagCounts:
    return FlagCounts(len(deck.held), len(deck.marks.changed), len(deck.marks.stale))


def take_flagged(deck: Deck) -> set[int]:
    """Tasks, by index, one of whose flags has come or gone since the last call."""
    touched, deck.marks.touched = deck.marks.touched, set()
    return touched
