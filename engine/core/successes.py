"""What is kept of successes: who is done as what and since when, and how long such work takes. Part of `apply`."""

from __future__ import annotations

from . import events as e
from .deck import Deck, Success, Task
from .learned import SEEN_S


def learn_success(deck: Deck, fact: e.AttemptEnded) -> None:
    deck.known.add(fact.task)
    if not fact.outcome.ok:
        return
    note_success(deck, fact.task, fact.fingerprint, fact.wall)


def note_success(deck: Deck, name: str, fingerprint: str, wall: float) -> None:
    keep_success(deck, name, fingerprint, wall)
    task = deck.by_name.get(name)
    if task is not None:
        deck.marks.succeeded(task, wall, deck.tasks)


def note_earlier(deck: Deck, name: str, fingerprint: str) -> None:
    """Its outputs tell that it was done before this run; when, nobody knows, so nothing becomes stale by it."""
    keep_success(deck, name, fingerprint, deck.run.started_wall)


def keep_success(deck: Deck, name: str, fingerprint: str, wall: float) -> None:
    """Under another name it counts only where the name is gone or now means other work: a renamed task is still done,
    two tasks with the same command are two tasks."""
    deck.successes[name] = Success(fingerprint, wall)
    task = deck.by_name.get(name)
    if task is None or task.gone or task.spec.fingerprint != fingerprint:
        deck.by_fingerprint[fingerprint] = max(wall, deck.by_fingerprint.get(fingerprint, 0.0))


def learn_duration(deck: Deck, task: Task, fact: e.AttemptEnded) -> None:
    deck.learned.success(fact.fingerprint, fact.duration_s)
    entry, first = task.entry, task.entry.typical_s is None
    moves = entry.learn(fact.duration_s) and (first or deck.settings.order == "longest")
    if moves and not deck.replaying:
        for index in entry.tasks:
            if index in deck.queue:
                deck.enqueue(deck.tasks[index])


def learn_memory(deck: Deck, fact: e.AttemptEnded) -> None:
    """What an end tells of the memory that such work needs on a card. One that ran out of memory tells nothing, one
    that ended early too little to rely on."""
    if not fact.peak_mib or fact.outcome.reason == "oom":
        return
    task = deck.by_name.get(fact.task)
    if fact.outcome.ok and (fact.duration_s >= SEEN_S or deck.settings.simulated):
        deck.learned.peak(fact.fingerprint, fact.peak_mib)
        if task is not None:
            task.entry.peak = task.entry.peak.with_one(fact.peak_mib)
    else:
        deck.learned.at_least(fact.fingerprint, fact.peak_mib)
