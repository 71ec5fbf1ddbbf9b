"""What a verb came to, task by task: what it changed, and why it left the others as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.deck import Deck, Task
from ..core.flags import is_changed, is_stale
from ..core.phases import NAMES, Phase
from ..protocol.words import stands


@dataclass(frozen=True, slots=True)
class Stand:
    """All of a task that a verb can change."""

    phase: Phase
    held: bool
    priority: int
    flags: tuple[bool, bool]
    unwanted: bool
    """Its attempt ends as cancelled, once all of it is gone."""


def stand(deck: Deck, task: Task) -> Stand:
    attempt = task.attempt()
    unwanted = attempt is not None and attempt.unwanted
    return Stand(task.phase, task.held, task.priority, (is_changed(deck, task), is_stale(deck, task)), unwanted)


def sort_out(deck: Deck, verb: str, tasks: Sequence[Task], before: Sequence[Stand]) -> tuple[list[str], dict[str, str]]:
    """Names of *tasks* that stand otherwise than *before*; and of the others, why nothing became of them."""
    done: list[str] = []
    left: dict[str, str] = {}
    for task, stood in zip(tasks, before, strict=True):
        now = stand(deck, task)
        if now.phase is stood.phase and now == stood:
            left[task.name] = _why(verb, task)
        else:
            done.append(task.name)
    return done, left


def _why(verb: str, task: Task) -> str:
    if not (task.selected or task.gone or task.attempt()):
        return "is left out of this run (--only, --exclude or --limit)"
    match verb:
        case "hold" if task.held:
            return "is held already"
        case "release":
            return "is not held"
        case "priority":
            return f"has priority {task.priority} already"
        case "accept":
            return "has nothing to accept"
        case _:
            return stands(NAMES[type(task.phase)])
