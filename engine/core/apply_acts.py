"""What facts that users asked for leave behind, and what taking them back restores. Part of `apply`."""

from __future__ import annotations

from dataclasses import replace

from . import events as e
from .acts import RESTORED, Act, Held, Marked, Moved, Ranked, as_left, moved
from .apply_run import LONGEST_WAIT_S, unsettle
from .deck import Deck, Task
from .phases import FINAL, WAITING, Backoff, Blocked, Cached, Cancelled, Failed, Pruned, Queued, Succeeded, Waiting
from .unasked import ask_for


def _begun(deck: Deck, name: str, verb: str) -> Act | None:
    return deck.acts.begun(name, verb, halted=deck.run.halted, paused=deck.paused)


def remember(deck: Deck, task: Task, fact: e.TaskRetried | e.TaskCancelled | e.TaskHeld | e.PriorityChanged) -> None:
    """Keep how a task stands before a fact changes it."""
    match fact:
        case e.TaskRetried():
            verb, before = "retry", moved(task, fact.given_before)
        case e.TaskCancelled():
            verb, before = "cancel", moved(task)
        case e.TaskHeld():
            verb, before = "hold" if fact.held else "release", Held(task.held)
        case e.PriorityChanged():
            verb, before = "priority", Ranked(task.priority, fact.priority)
    act = _begun(deck, fact.act, verb)
    changes = not isinstance(fact, e.TaskRetried) or isinstance(task.phase, (*FINAL, Backoff))
    if act is not None and changes:
        deck.acts.note(act, task.name, before)


def remember_pause(deck: Deck, fact: e.DeckPaused) -> None:
    act = _begun(deck, fact.act, "pause" if fact.paused else "unpause")
    if act is not None and fact.paused:
        act.paused_as = fact.why or "paused"


def remember_mark(deck: Deck, fact: e.GpuMarked) -> None:
    gpu = deck.gpus.get(fact.gpu)
    act = _begun(deck, fact.act, fact.mark)
    if act is not None and gpu is not None:
        act.gpus.setdefault(gpu.uuid, Marked(gpu.mark, "" if fact.mark == "enable" else fact.mark))


def taken_back(deck: Deck, fact: e.TakenBack) -> None:
    """Put a task back to how it stood before a retry or a cancel."""
    task, act = deck.by_name.get(fact.task), deck.acts.get(fact.act)
    before = None if act is None else act.tasks.get(fact.task)
    if task is None or not isinstance(before, Moved) or not as_left(task, fact.act, before):
        return
    unsettle(deck, task)
    if not isinstance(task.phase, Waiting):
        deck.move(task, WAITING)
    ask_for(deck, task)
    for name, value in zip(RESTORED, before.restored, strict=True):
        setattr(task, name, value)
    deck.plan_due = True
    match before.phase:
        case Backoff():
            # A clock reading of before a reboot means nothing.
            until = min(before.phase.until, fact.at + LONGEST_WAIT_S)
            deck.move(task, replace(before.phase, until=until))
            deck.wake(until, "backoff", task.index)
        case Succeeded() | Cached() | Failed() | Cancelled() | Pruned():
            deck.move(task, before.phase)
            _settle_again(deck, task, before)
        case Waiting() | Queued() | Blocked():
            pass
        case _:
            raise ValueError(f"{task.name}: {before.phase} is nothing to go back to")


def _settle_again(deck: Deck, task: Task, before: Moved) -> None:
    """`halt` reckons with it as it did."""
    task.settled_in = before.settled_in
    if task.settled_in == deck.run.number and not task.gone:
        deck.run.settled += 1
        deck.run.failures += isinstance(task.phase, Failed)
