"""Tasks that a run begun by hand leaves alone: they are new in the file, and nobody has asked for them."""

from __future__ import annotations

from collections.abc import Iterator

from .deck import Deck, Task
from .phases import Blocked, Waiting
from .readiness import spread


def leave_unasked(deck: Deck) -> None:
    """A run is about to begin by hand, after one that came to its end: what waits now, and is not blocked, has come
    into the file since."""
    deck.unasked.clear()
    if not deck.counts[Waiting]:
        return
    while deck.opened < len(deck.tasks) or deck.dirty:
        spread(deck)
    todo = [task for task in deck.tasks if task.selected and isinstance(task.phase, Waiting)]
    deck.unasked.update(task.index for task in todo)
    while todo:
        for index in _behind(todo.pop()):
            task = deck.tasks[index]
            if isinstance(task.phase, Blocked) and index not in deck.unasked:
                deck.unasked.add(index)
                todo.append(task)


def ask_for(deck: Deck, task: Task) -> None:
    """A task that the run takes up brings along what it waits for, directly or not."""
    todo = [task]
    while todo and deck.unasked:
        for index in _waited_for(todo.pop()):
            if index in deck.unasked:
                deck.unasked.discard(index)
                deck.opened = 0  # they follow their gates from now on
                todo.append(deck.tasks[index])


def ask_for_all(deck: Deck) -> None:
    if deck.unasked:
        deck.unasked.clear()
        deck.opened = 0


def _waited_for(task: Task) -> Iterator[int]:
    yield task.index
    for first in task.gates:
        gate = first
        while gate is not None:
            yield from gate.members
            gate = gate.before


def _behind(task: Task) -> Iterator[int]:
    for first in task.feeds:
        gate = first
        while gate is not None:
            yield from gate.dependents
            gate = gate.feeds_gate


def unasked_waiting(deck: Deck) -> int:
    """How many of them wait."""
    return sum(isinstance(deck.tasks[index].phase, Waiting) for index in deck.unasked)
