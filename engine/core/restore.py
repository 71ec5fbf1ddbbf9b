"""From the facts of earlier engines to a deck that goes on: the same `apply`, then what a new engine must see to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .apply import apply
from .apply_run import rebooted as rebooted
from .deck import Deck, Task
from .effects import Stop
from .events import AttemptStarting, Fact, TaskRetried
from .phases import FINAL, Cancelled, Closing, Running, Starting, Stopping, Unknown
from .readiness import reconsider
from .turn import Turn

LATE_WARNING_S = 300.0
"""An attempt found past its timeout is warned and gets at most this long before it is stopped."""


def replay(deck: Deck, facts: Iterable[Fact]) -> dict[str, AttemptStarting]:
    """Fold a journal into a fresh deck. Returns the starts of the attempts that have not ended, by token."""
    starts: dict[str, AttemptStarting] = {}
    deck.replaying = True
    for fact in facts:
        apply(deck, fact)
        if isinstance(fact, AttemptStarting) and fact.task in deck.by_name:
            starts[fact.token] = fact
    deck.replaying = False
    deck.no_starts_until = -1e9
    deck.opened = 0
    return {token: fact for token, fact in starts.items() if token in deck.active}


def take_over(turn: Turn, verdicts: Mapping[str, str]) -> None:
    """Go on with attempts of an earlier engine. *verdicts* is what `Launcher.recover` said, by token.

    Ends that it found come as inputs; here running ones get their deadlines back, and stops are resumed.
    """
    for token, task in list(turn.deck.active.items()):
        verdict = verdicts.get(token, "unknown")
        if verdict == "unknown":
            attempt = task.attempt()
            if attempt is not None and not isinstance(task.phase, Unknown):
                outcome = task.phase.outcome if isinstance(task.phase, Closing) else None
                turn.deck.move(task, Unknown(attempt, outcome))
        elif verdict == "adopted":
            _resume(turn, task)


def _resume(turn: Turn, task: Task) -> None:
    policy = task.spec.policy
    match task.phase:
        case Stopping(attempt, kill_at=kill_at):
            grace = min(policy.grace_s, max(0.0, kill_at - turn.at))
            turn.do(Stop(attempt.token, policy.stop_signal, policy.stop_scope, grace))
        case Closing(attempt, why=why) if why is not None:
            turn.do(Stop(attempt.token, policy.stop_signal, policy.stop_scope, policy.grace_s))
        case Closing(attempt):
            at = max(turn.at, (attempt.exited_at or turn.at) + policy.linger_s)
            if policy.leftovers == "stop":
                turn.deck.wake(at, "linger", task.index, attempt.token)
        case Starting(attempt) | Running(attempt) if policy.timeout_s is not None:
            end = attempt.at + policy.timeout_s
            late = end <= turn.at
            warn = turn.at if late else max(turn.at, end - policy.warn_before_s)
            if policy.warn_signal is not None:
                turn.deck.wake(warn, "warn", task.index, attempt.token)
                end = turn.at + min(policy.warn_before_s, LATE_WARNING_S) if late else end
            turn.deck.wake(end, "timeout", task.index, attempt.token)
        case _:
            pass


def take_up_changed(turn: Turn) -> int:
    """Queue finished tasks that the file has changed since. Returns how many."""
    count = 0
    for task in turn.deck.tasks:
        if not task.selected or not isinstance(task.phase, FINAL) or isinstance(task.phase, Cancelled):
            continue
        success = turn.deck.successes.get(task.name)
        last = success.fingerprint if success is not None and not task.unfinished else task.unfinished
        if last and last != task.spec.fingerprint:
            turn.record(TaskRetried(task.name, turn.at))
            reconsider(turn.deck, task)
            count += 1
    return count
