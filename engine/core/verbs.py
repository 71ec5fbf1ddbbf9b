"""What users ask for: cancel, retry, hold, pause, priority, and the engine's own shutdown."""

from __future__ import annotations

from hashlib import blake2b
from typing import assert_never

from . import events as e
from . import inputs as i
from .deck import Task
from .effects import Stop
from .ends import end, stop, stop_rest
from .phases import FINAL, Backoff, Blocked, Closing, Queued, Running, Starting, Stopping, Unknown, Waiting
from .readiness import reconsider
from .turn import Turn


def verb(turn: Turn, item: i.Verb) -> None:
    if item.verb in ("pause", "unpause"):
        if item.verb == "unpause" and turn.deck.run.halted and turn.deck.run.ended:
            _another_run(turn)
        turn.record(e.DeckPaused(item.verb == "pause", "paused" if item.verb == "pause" else ""))
        return
    for name in item.tasks:
        task = turn.deck.by_name.get(name)
        if task is not None and (task.selected or task.attempt() is not None):
            verb_on(turn, task, item)


def verb_on(turn: Turn, task: Task, item: i.Verb) -> None:
    match item.verb:
        case "cancel" | "kill":
            cancel(turn, task, item.by, now=item.verb == "kill")
        case "retry":
            retry(turn, task)
        case "hold" | "release":
            held = item.verb == "hold"
            if task.held != held and not isinstance(task.phase, FINAL):
                turn.record(e.TaskHeld(task.name, held))
                requeue(turn, task)
        case "priority":
            turn.record(e.PriorityChanged(task.name, item.value))
        case "pause" | "unpause":
            pass
        case _:
            assert_never(item.verb)


def requeue(turn: Turn, task: Task) -> None:
    if not isinstance(task.phase, Queued):
        return
    if task.held:
        turn.deck.queue.drop(task.index)
        turn.deck.heads.pop(task.index, None)
    elif task.index not in turn.deck.queue:
        turn.deck.arrivals.append(task.index)
    turn.deck.plan_due = True


def cancel(turn: Turn, task: Task, by: str, *, now: bool) -> None:
    match task.phase:
        case Starting(attempt) | Running(attempt):
            if attempt.exited_at is None:
                stop(turn, task, attempt, "cancelled", by, grace_s=0.0 if now else None)
            attempt.unwanted = True
        case Stopping(attempt):
            attempt.unwanted = True
            if now:
                turn.do(Stop(attempt.token, "KILL", "group", 0.0))
        case Closing(attempt):
            attempt.unwanted = True
            stop_rest(turn, task, attempt, now=now)
        case Unknown(attempt, outcome):
            attempt.exited_at = attempt.gone_at = turn.at
            end(turn, task, attempt, outcome or e.Outcome("cancelled", detail="what became of it is not known"))
        case Waiting() | Queued() | Blocked() | Backoff():
            turn.record(e.TaskCancelled(task.name, turn.at))
        case _:
            pass


def retry(turn: Turn, task: Task) -> None:
    if not isinstance(task.phase, (*FINAL, Backoff)):
        return
    if turn.deck.run.ended:
        _another_run(turn)
    turn.record(e.TaskRetried(task.name, turn.at))
    reconsider(turn.deck, task)


def _another_run(turn: Turn) -> None:
    """What the user asks for by hand goes on where the last run ended: nothing that is settled is looked at again."""
    run = turn.deck.run
    seed = blake2b(f"{run.seed}{run.number}".encode(), digest_size=8).hexdigest()
    turn.record(e.RunStarted(run.number + 1, seed, turn.at, turn.wall, run.boot_id, run.host, ("retry",)))


def shutdown(turn: Turn, item: i.Shutdown) -> None:
    turn.deck.stopping = True
    for task in list(turn.deck.active.values()):
        match task.phase:
            case Starting(attempt) | Running(attempt) if attempt.exited_at is None:
                grace = 0.0 if item.now else item.grace_s
                stop(turn, task, attempt, "interrupted", item.by, grace_s=grace)
            case Stopping(attempt) if item.now:
                turn.do(Stop(attempt.token, "KILL", "group", 0.0))
            case Starting(attempt) | Running(attempt) | Closing(attempt):
                stop_rest(turn, task, attempt, now=item.now)
            case _:
                pass
