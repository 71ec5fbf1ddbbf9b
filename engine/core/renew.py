"""What several verbs lead to: another run, a place in the queue given up or taken again."""

from __future__ import annotations

from hashlib import blake2b

from . import events as e
from .apply_run import BY_HAND
from .deck import Task
from .phases import Queued
from .restore import has_new
from .turn import Here, Turn


def another_run(turn: Turn, takes: tuple[str, ...] = BY_HAND, act: str = "") -> None:
    """What the user asks for by hand goes on where the last run ended: nothing that is settled is looked at again."""
    run = turn.deck.run
    seed = blake2b(f"{run.seed}{run.number}".encode(), digest_size=8).hexdigest()
    here = turn.here or Here(run.boot_id, run.host)
    number = run.number + 1
    turn.record(e.RunStarted(number, seed, turn.at, turn.wall, here.boot_id, here.host, takes, run.options, act))


def take_up_new(turn: Turn) -> None:
    """The deck is to run as a whole, with all that is new in its file."""
    deck = turn.deck
    if deck.run.ended and has_new(deck):
        another_run(turn, ("new",))
    elif deck.unasked and not deck.run.halted_before:
        turn.record(e.TakesChanged(("new",)))


def requeue(turn: Turn, task: Task) -> None:
    if not isinstance(task.phase, Queued):
        return
    if task.held:
        turn.deck.queue.drop(task.index)
        turn.deck.heads.pop(task.index, None)
    elif task.index not in turn.deck.queue:
        turn.deck.arrivals.append(task.index)
    turn.deck.plan_due = True
