"""Tasks that a run begun by hand leaves alone: they are new in the file, and nobody has asked for them."""

from __future__ import annotations

from collections.abc import Iterator

from .deck import Deck, Task
from .gates import Gate
from .phases import Blocked, Waiting
from .readiness import spread


def leave_unasked(deck: Deck) -> None:
    """A run is about to begin by hand, after one that came to its end: what waits now, and is not blocked, has come
    into the file since."""
    deck.unasked.clear()
    if not deck.counts[Waiting]:
        return
    spread(deck)
    todo = [task for task in deck.tasks if task.selected and isinstance(task.phase, Waiting)]
    deck.unasked.update(task.index for task in todo)
    while todo:
        for index in (index for gate in gates_behind(todo.pop()) for index in gate.dependents):
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
                deck.unopened = True  # they follow their gates from now on
                todo.append(deck.tasks[index])


def ask_for_all(deck: Deck) -> None:
    if deck.unasked:
        deck.unasked.clear()
        deck.unopened = True


def _waited_for(task: Task) -> Iterator[int]:
    yield task.index
    for first in task.gates:
        gate = first
        while gate is not None:
            yield from gate.members
            gate = gate.before


def gates_behind(task: Task) -> Iterator[Gate]:
    """Those that it feeds, directly or through rounds."""
    for first in task.feeds:
        gate: Gate | None = first
        while gate is not None:
            yield gate
            gate = gate.feeds_gate


def unasked_waiting(deck: Deck) -> int:
    """How many of them wait."""
    return sum(isinstance(deck.tasks[index].phase, Waiting) for index in deck.unasked)
