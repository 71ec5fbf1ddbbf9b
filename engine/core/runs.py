"""Runs that begin and go on: another one that is asked for, what an earlier engine left, tasks queued again."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from . import events as e
from .apply_run import BY_HAND
from .attempts import arm_timeout, stop_rest
from .deck import Deck, Task
from .events import CHANGED, Fate, TaskHeld, TaskRetried, Unproven
from .gates import GateState
from .phases import ACTIVE, FINAL, Cancelled, Closing, Running, Starting, Stopping, Unknown
from .preempt import warn_first
from .readiness import reconsider
from .turn import Here, Turn


def another_run(turn: Turn, takes: tuple[str, ...] = BY_HAND, act: str = "") -> None:
    """What the user asks for by hand goes on where the last run ended: nothing that is settled is looked at again."""
    run, part = turn.deck.run, turn.deck.is_part
    seed = blake2b(f"{run.seed}{run.number}".encode(), digest_size=8).hexdigest()
    here = turn.here or Here(run.boot_id, run.host)
    number = run.number + 1
    turn.record(e.RunStarted(number, seed, turn.at, turn.wall, here.boot_id, here.host, takes, run.options, act, part))


def take_up_new(turn: Turn) -> None:
    """The deck is to run as a whole, with all that is new in its file."""
    deck = turn.deck
    if deck.run.ended and has_new(deck):
        another_run(turn, ("new",))
    elif deck.unasked and not deck.run.halted_before:
        turn.record(e.TakesChanged(("new",)))


def hold(turn: Turn, task: Task, by: str, act: str = "", *, held: bool) -> None:
    """Keep a task from starting, or let it go. What is over is not kept."""
    if task.held == held or (held and isinstance(task.phase, FINAL)):
        return
    turn.record(TaskHeld(task.name, held, by, act))
    if held:
        turn.deck.queue.drop(task.index)
        turn.deck.heads.pop(task.index, None)
    else:
        turn.deck.arrivals.append(task.index)


_STOPPED = ("timeout", "cancelled", "interrupted", "pruned")
"""Reasons why what a leader left is being stopped."""


def take_over(turn: Turn, fates: Mapping[str, Fate]) -> None:
    """Go on with attempts of an earlier engine. *fates* is what `Launcher.recover` said, by token.

    Ends that it found come as inputs; here running ones get their deadlines back, and stops are resumed.
    """
    for task, attempt in turn.deck.lasting:
        match fates.get(attempt.token, Unproven()):
            case Unproven(why):
                if not isinstance(task.phase, Unknown):
                    outcome = task.phase.outcome if isinstance(task.phase, Closing) else None
                    turn.deck.move(task, Unknown(attempt, outcome, why))
            case "adopted":
                _resume(turn, task)
            case "ended":
                _resume_rest(turn, task)
            case "never ran" | "lost":
                pass


def _resume(turn: Turn, task: Task) -> None:
    policy = task.begun_policy
    match task.phase:
        case Stopping(attempt, "preempted", kill_at=kill_at) if kill_at - policy.grace_s > turn.at:
            warn_first(turn, task, attempt, kill_at - policy.grace_s)
        case Stopping(attempt, kill_at=kill_at):
            stop_rest(turn, task, attempt, grace_s=max(0.0, kill_at - turn.at))
        case Closing(attempt, outcome, why) if why is not None or attempt.unwanted or outcome.reason in _STOPPED:
            stop_rest(turn, task, attempt)
        case Closing(attempt):
            if policy.leftovers == "stop":
                at = (attempt.exited_at or turn.at) + policy.linger_s
                turn.deck.wake(at, "linger", task.index, attempt.token)
            elif policy.leftovers == "wait":
                arm_timeout(turn.deck, task, attempt, policy, turn.at)
        case Running(attempt):
            arm_timeout(turn.deck, task, attempt, policy, turn.at)
        case _:
            pass  # of one that was starting the launcher tells that it was spawned


def _resume_rest(turn: Turn, task: Task) -> None:
    """Its leader has ended, which comes as an input. Something that it left may live."""
    match task.phase:
        case Stopping() | Closing():
            _resume(turn, task)
        case Starting(attempt) | Running(attempt):
            timeout_s = task.begun_policy.timeout_s
            if timeout_s is not None and attempt.began and attempt.at + timeout_s > turn.at:
                arm_timeout(turn.deck, task, attempt, task.begun_policy, turn.at)
        case _:
            pass


def take_up_changed(turn: Turn) -> None:
    """Queue finished tasks that the file has changed since."""
    for index in sorted(turn.deck.marks.changed):
        task = turn.deck.tasks[index]
        if not isinstance(task.phase, Cancelled):
            turn.record(TaskRetried(task.name, turn.at, CHANGED))
            reconsider(turn.deck, task)


def has_new(deck: Deck) -> bool:
    """Whether a deck whose last run has ended has anything that its file's owner would expect to start by itself: a
    task that never came to its end and that nothing bars, or with `rerun_stale` a stale one. What a halt has left waits
    for the user."""
    if deck.run.halted:
        return False
    if deck.settings.rerun_stale and any(deck.tasks[index].selected for index in deck.marks.stale):
        return True
    return any(
        task.selected and not isinstance(task.phase, (*FINAL, *ACTIVE)) and deck.gates_say(task) is GateState.OPEN
        for task in deck.tasks
    )
