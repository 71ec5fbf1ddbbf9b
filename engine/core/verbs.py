"""What users ask for, task by task: cancel, retry, accept, hold, priority; pause; and the engine's own shutdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from . import events as e
from . import inputs as i
from .attempts import by_whom, cut_short, end, stop, stop_rest
from .deck import Task
from .effects import Stop
from .flags import is_changed, is_stale
from .gates import Gate
from .phases import (
    FINAL,
    Attempt,
    Backoff,
    Blocked,
    Cancelled,
    Closing,
    Pruned,
    Queued,
    Running,
    Starting,
    Stopping,
    Unknown,
    Waiting,
)
from .readiness import reconsider
from .retry import Decision
from .runs import another_run, hold
from .turn import Turn
from .unasked import gates_behind
from .undo import undo, undo_deck


def verb(turn: Turn, item: i.Verb) -> None:
    if item.verb in ("pause", "unpause"):
        _pause(turn, item)
        return
    if item.verb == "undo":
        undo_deck(turn, item)
    done: list[Task] = []
    for name in item.tasks:
        task = turn.deck.by_name.get(name)
        if task is None or not (task.selected or task.attempt() is not None):
            continue
        before = turn.decided
        verb_on(turn, task, item)
        if turn.decided != before:
            done.append(task)
    item.did.extend(task.name for task in done)
    if item.downstream and item.verb == "retry":
        retry_behind(turn, done, item)


def _pause(turn: Turn, item: i.Verb) -> None:
    deck = turn.deck
    if item.verb == "pause":
        if not deck.paused:
            who = "" if item.by in ("", "user") else f" by {item.by}"
            turn.record(e.DeckPaused(True, f"paused{who}", item.act))
        return
    renewed = bool(deck.run.halted) and deck.run.ended
    if renewed:
        another_run(turn, ("new",), item.act)
    elif deck.run.halted_before:
        turn.record(e.TakesChanged(("new",)))
    if renewed or deck.paused or deck.run.halted:
        turn.record(e.DeckPaused(False, act=item.act))


def verb_on(turn: Turn, task: Task, item: i.Verb) -> None:
    match item.verb:
        case "cancel" | "kill":
            by = f"{item.by} (kill)" if item.by and item.verb == "kill" else item.by
            cancel(turn, task, by, now=item.verb == "kill", act=item.act)
        case "retry":
            retry(turn, task, item)
        case "accept":
            accept(turn, task, item.by)
        case "hold" | "release":
            hold(turn, task, item.by, item.act, held=item.verb == "hold")
        case "priority":
            if task.priority != item.value:
                turn.record(e.PriorityChanged(task.name, item.value, item.by, item.act))
        case "undo":
            undo(turn, task, item)
        case "pause" | "unpause":
            pass
        case _:
            assert_never(item.verb)


# -- cancel -----------------------------------------------------------------------------------------------------------


def cancel(turn: Turn, task: Task, by: str, *, now: bool, act: str = "") -> None:
    match task.phase:
        case Starting(attempt) | Running(attempt) if attempt.exited_at is None:
            stop(turn, task, attempt, "cancelled", by, grace_s=0.0 if now else None)
        case Starting(attempt) | Running(attempt):
            _unwant(turn, task, attempt, by)
        case Stopping(attempt, why):
            if why != "cancelled":
                _unwant(turn, task, attempt, by)
            if now:
                turn.do(Stop(attempt.token, "KILL", "group", 0.0))
        case Closing(attempt):
            _unwant(turn, task, attempt, by)
            cut_short(turn, task, attempt, "cancelled", by_whom(by), grace_s=0.0 if now else None)
        case Unknown(attempt, outcome):
            _unwant(turn, task, attempt, by)
            _gone(turn, task, attempt, outcome or e.Outcome("cancelled", detail=_verdict(by)))
        case Waiting() | Queued() | Blocked() | Backoff():
            turn.record(e.TaskCancelled(task.name, turn.at, by, act))
        case _:
            pass


def _unwant(turn: Turn, task: Task, attempt: Attempt, by: str) -> None:
    if not attempt.unwanted:
        turn.record(e.CancelRequested(task.name, attempt.number, by, turn.at))


def _verdict(by: str) -> str:
    return f"gone, says {by}; what became of it is not known" if by else "what became of it is not known"


def _gone(turn: Turn, task: Task, attempt: Attempt, outcome: e.Outcome, verdict: Decision | None = None) -> None:
    """The user has made sure that nothing of it lives: its slots are free."""
    attempt.gone_at = turn.at
    attempt.exited_at = turn.at if attempt.exited_at is None else attempt.exited_at
    end(turn, task, attempt, outcome, verdict)


# -- retry and accept -------------------------------------------------------------------------------------------------


def retry(turn: Turn, task: Task, item: i.Verb) -> None:
    if not task.selected:
        return
    if isinstance(task.phase, Unknown):
        phase = task.phase
        outcome = phase.outcome or e.Outcome("lost", detail=_verdict(item.by))
        if outcome.ok:
            # Only what it left behind was in doubt.
            _gone(turn, task, phase.attempt, outcome)
            return
        _gone(turn, task, phase.attempt, outcome, Decision("queued", charged=False))
        again(turn, task, item.again, item.by)
    elif isinstance(task.phase, (*FINAL, Backoff)) or (
        (turn.deck.run.ended or task.index in turn.deck.unasked) and isinstance(task.phase, (Waiting, Blocked))
    ):
        again(turn, task, item.again, item.by, item.act, item.given_before.get(task.name))


def again(
    turn: Turn, task: Task, options: e.RetryOptions, by: str, act: str = "", given_before: e.Values | None = None
) -> None:
    """Take a task up again, whatever came of it before."""
    if turn.deck.run.ended:
        another_run(turn, act=act)
    turn.record(e.TaskRetried(task.name, turn.at, options, by, act, given_before))
    reconsider(turn.deck, task)


def take_up_stale(turn: Turn) -> bool:
    """With `rerun_stale`, let tasks that have become stale in this run run again in it. False: there are none."""
    deck = turn.deck
    if not deck.settings.rerun_stale or deck.run.halted:
        return False
    stale = sorted(index for index in deck.marks.stale if deck.tasks[index].selected and not deck.tasks[index].gone)
    for index in stale:
        again(turn, deck.tasks[index], e.PLAIN, "rerun_stale")
    return bool(stale)


def retry_behind(turn: Turn, tasks: Sequence[Task], item: i.Verb) -> None:
    """Carry a retry on to the finished tasks that build on these, directly or not.

    A task that the user cancelled, or that was pruned, stays so, and nothing behind it has to run again because of it.
    """
    todo, seen = list(tasks), set[Gate]()
    while todo:
        for gate in gates_behind(todo.pop()):
            if gate in seen:
                continue
            seen.add(gate)
            found = [turn.deck.tasks[index] for index in gate.dependents]
            found = [task for task in found if not isinstance(task.phase, (Cancelled, Pruned))]
            for task in found:
                if isinstance(task.phase, FINAL):
                    again(turn, task, item.again, item.by, item.act)
            todo += found


def accept(turn: Turn, task: Task, by: str) -> None:
    """Keep a result: of other work than the file now wants, or older than what it builds on."""
    attempt = task.attempt()
    wanted = task.spec.fingerprint
    kept = (attempt.counts_as or attempt.fingerprint) if attempt is not None else wanted
    if is_changed(turn.deck, task) or is_stale(turn.deck, task) or kept != wanted:
        turn.record(e.TaskAccepted(task.name, wanted, turn.at, turn.wall, by))


# -- the engine's end -------------------------------------------------------------------------------------------------


def shutdown(turn: Turn, item: i.Shutdown) -> None:
    turn.deck.stopping = True
    grace = 0.0 if item.now else item.grace_s
    for task in list(turn.deck.active.values()):
        match task.phase:
            case Starting(attempt) | Running(attempt) if attempt.exited_at is None:
                stop(turn, task, attempt, "interrupted", item.by, grace_s=grace)
            case Stopping(attempt) if item.now:
                turn.do(Stop(attempt.token, "KILL", "group", 0.0))
            case Stopping(attempt) if grace is not None:
                stop_rest(turn, task, attempt, grace_s=grace)
            case Starting(attempt) | Running(attempt) | Closing(attempt):
                cut_short(turn, task, attempt, "interrupted", by_whom(item.by), grace_s=grace)
            case _:
                pass
