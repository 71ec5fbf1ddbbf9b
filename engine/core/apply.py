"""apply(deck, fact): the only writer of the state, live and at restore.

Facts of tasks that the task file no longer has teach durations and successes, and change nothing else.
"""

from __future__ import annotations

from typing import assert_never

from . import events as e
from .apply_run import count_settled, fresh, gpu_fact, rebooted, run_ended, run_started, unsettle
from .deck import Deck, Success, Task
from .phases import (
    CANCELLED,
    FINAL,
    QUEUED,
    SUCCEEDED,
    WAITING,
    Attempt,
    Backoff,
    Cached,
    Closing,
    Ended,
    Failed,
    Queued,
    Running,
    Starting,
    Stopping,
)
from .urgency import follow

FAST_S = 60.0
"""An attempt that gets past this shows that its GPU works."""


def apply(deck: Deck, fact: e.Fact) -> None:
    """Fold one fact into the state."""
    match fact:
        case e.AttemptStarting() | e.AttemptRunning() | e.AttemptEnded() | e.LeaderEnded() | e.StopRequested():
            _attempt(deck, fact)
        case e.StartRevoked() | e.TaskCached() | e.TaskCancelled() | e.TaskRetried() | e.TaskHeld():
            _task(deck, fact)
        case e.PriorityChanged():
            _task(deck, fact)
        case e.RunStarted():
            run_started(deck, fact)
        case e.OptionsChanged():
            deck.run.options = fact.options
        case e.BoxRestarted():
            deck.run.boot_id = fact.boot_id
            rebooted(deck, fact.at)
        case e.RunEnded():
            run_ended(deck)
        case e.DeckPaused():
            deck.paused = fact.why or "paused" if fact.paused else ""
            if not fact.paused:
                deck.run.halted = ""
            deck.plan_due = True
        case e.Halted():
            deck.run.halted = fact.by
        case e.GpuQuarantined() | e.GpuReleased() | e.GpuJoined() | e.GpuMarked():
            gpu_fact(deck, fact)
        case e.ShardsFixed():
            deck.shards[fact.entry] = fact.shards
        case _:
            assert_never(fact)


# -- attempts ---------------------------------------------------------------------------------------------------------

AttemptFact = e.AttemptStarting | e.AttemptRunning | e.AttemptEnded | e.LeaderEnded | e.StopRequested


def _attempt(deck: Deck, fact: AttemptFact) -> None:
    task = deck.by_name.get(fact.task)
    if task is None:
        if isinstance(fact, e.AttemptEnded):
            _learn_success(deck, fact)
        return
    match fact:
        case e.AttemptStarting():
            _starting(deck, task, fact)
        case e.AttemptRunning():
            attempt = _current(task, fact.attempt)
            attempt.pid, attempt.start_ticks, attempt.pid_ns = fact.pid, fact.start_ticks, fact.pid_ns
            if isinstance(task.phase, Starting):
                deck.move(task, Running(attempt))
        case e.StopRequested():
            attempt = _current(task, fact.attempt)
            deck.move(task, Stopping(attempt, fact.why, fact.by, fact.at, fact.kill_at))
        case e.LeaderEnded():
            attempt = _current(task, fact.attempt)
            attempt.exited_at = fact.at
            why = task.phase.why if isinstance(task.phase, (Stopping, Closing)) else None
            if isinstance(task.phase, Closing):
                task.phase = Closing(attempt, fact.outcome, why)
            else:
                deck.move(task, Closing(attempt, fact.outcome, why))
        case e.AttemptEnded():
            _ended(deck, task, fact)


def _current(task: Task, number: int) -> Attempt:
    attempt = task.attempt()
    if attempt is None or attempt.number != number:
        raise ValueError(f"{task.name}: a fact about attempt {number}, which does not last")
    return attempt


def _starting(deck: Deck, task: Task, fact: e.AttemptStarting) -> None:
    deck.known.add(task.name)
    task.decided = True
    task.attempts = fact.attempt
    _ready(deck, task)
    attempt = Attempt(
        fact.attempt,
        fact.token,
        fact.fingerprint,
        fact.gpus,
        fact.cpu_slots,
        fact.reserved_mib,
        fact.at,
        fact.wall,
        fact.rung,
        alone=fact.alone,
    )
    deck.move(task, Starting(attempt))
    for uuid in fact.gpus:
        gpu = deck.gpus.get(uuid)
        if gpu is not None and gpu.quarantine is not None:
            gpu.quarantine.probing = fact.token
            deck.wake(fact.at + FAST_S, "minute", task.index, fact.token)


def _ready(deck: Deck, task: Task) -> None:
    """At a restore the file may say otherwise than when the fact was written: what ran had been queued."""
    if not deck.replaying or isinstance(task.phase, Queued):
        return
    if isinstance(task.phase, (*FINAL, Backoff)):
        unsettle(deck, task)
        deck.move(task, WAITING)
    deck.move(task, QUEUED)


def _ended(deck: Deck, task: Task, fact: e.AttemptEnded) -> None:
    attempt = _current(task, fact.attempt)
    attempt.exited_at = fact.at
    task.ended = (*task.ended, Ended(fact.attempt, fact.outcome, attempt.gpus, fact.duration_s, fact.peak_mib))
    if fact.outcome.ok:
        _learn_success(deck, fact)
        task.unfinished = ""
        task.left_out_done = None
        if not attempt.rebooted:
            _learn_duration(deck, task, fact)
    elif not fact.never_ran:
        if fact.outcome.reason != "spawn error":
            task.unfinished = attempt.fingerprint
        _charge(deck, task, fact, attempt)
    if fact.outcome.ok or fact.duration_s >= FAST_S:
        task.entry.fast_failures = 0
    elif fact.outcome.reason not in ("cancelled", "interrupted"):
        task.entry.fast_failures += 1
    if fact.duration_s >= FAST_S and not attempt.rebooted:
        task.entry.past_minute.update(dict.fromkeys(attempt.gpus, fact.at))
    _next_phase(deck, task, fact)
    for uuid in attempt.gpus:
        gpu = deck.gpus.get(uuid)
        if gpu is not None and gpu.quarantine is not None and gpu.quarantine.probing == attempt.token:
            gpu.quarantine.probing = ""


def _charge(deck: Deck, task: Task, fact: e.AttemptEnded, attempt: Attempt) -> None:
    if fact.outcome.reason == "oom" and not (fact.next == "queued" and not fact.charged):
        deck.learned.out_of_memory(attempt.fingerprint, attempt.reserved_mib)
    if fact.next == "queued" and not fact.charged:
        if fact.outcome.reason != "interrupted":
            task.free_requeues += 1
        if fact.outcome.reason == "interrupted":
            return
    elif fact.outcome.reason == "oom" and task.spec.ladder:
        task.oom_ends += 1
    elif fact.charged and fact.next in ("backoff", "queued"):
        task.retries_used += 1
    if attempt.gpus:
        task.avoid = task.avoid | frozenset(attempt.gpus)


def _next_phase(deck: Deck, task: Task, fact: e.AttemptEnded) -> None:
    match fact.next:
        case "succeeded":
            deck.move(task, SUCCEEDED)
            count_settled(deck, task)
        case "failed":
            deck.move(task, Failed(fact.outcome))
            count_settled(deck, task)
        case "cancelled":
            deck.move(task, CANCELLED)
            count_settled(deck, task)
        case "backoff":
            deck.move(task, Backoff(fact.until, fact.outcome))
            deck.wake(fact.until, "backoff", task.index)
        case "queued":
            deck.move(task, QUEUED)
        case _:
            assert_never(fact.next)


def _learn_success(deck: Deck, fact: e.AttemptEnded) -> None:
    deck.known.add(fact.task)
    if not fact.outcome.ok:
        return
    note_success(deck, fact.task, fact.fingerprint, fact.wall)


def note_success(deck: Deck, name: str, fingerprint: str, wall: float) -> None:
    _success(deck, name, fingerprint, wall)
    task = deck.by_name.get(name)
    if task is not None:
        for gate in task.feeds:
            gate.note_success(wall)


def _note_earlier(deck: Deck, name: str, fingerprint: str) -> None:
    """Its outputs tell that it was done before this run; when, nobody knows, so nothing becomes stale by it."""
    _success(deck, name, fingerprint, deck.run.started_wall)


def _success(deck: Deck, name: str, fingerprint: str, wall: float) -> None:
    """Under another name it counts only where the name is gone or now means other work: a renamed task is still done,
    two tasks with the same command are two tasks."""
    deck.successes[name] = Success(fingerprint, wall)
    task = deck.by_name.get(name)
    if task is None or task.spec.fingerprint != fingerprint:
        deck.by_fingerprint[fingerprint] = max(wall, deck.by_fingerprint.get(fingerprint, 0.0))


def _learn_duration(deck: Deck, task: Task, fact: e.AttemptEnded) -> None:
    deck.learned.success(fact.fingerprint, fact.duration_s, fact.peak_mib)
    task.entry.peak_mib = max(task.entry.peak_mib, fact.peak_mib)
    if task.entry.learn(fact.duration_s) and len(task.entry.tasks) > 1 and not deck.replaying:
        deck.rekey.append(task.entry)


# -- tasks ------------------------------------------------------------------------------------------------------------

TaskFact = e.StartRevoked | e.TaskCached | e.TaskCancelled | e.TaskRetried | e.TaskHeld | e.PriorityChanged


def _task(deck: Deck, fact: TaskFact) -> None:
    task = deck.by_name.get(fact.task)
    if task is None:
        return
    match fact:
        case e.StartRevoked():
            task.attempts -= 1
            task.revoked += 1
            deck.move(task, QUEUED)
            deck.no_starts_until = max(deck.no_starts_until, fact.until)
            deck.wake(fact.until, "plan")
        case e.TaskCached():
            _ready(deck, task)
            deck.move(task, Cached(fact.why))
            count_settled(deck, task)
            if fact.why == "outputs":
                _note_earlier(deck, task.name, fact.fingerprint)
        case e.TaskCancelled():
            _ready(deck, task)
            deck.move(task, CANCELLED)
            count_settled(deck, task)
        case e.TaskRetried():
            unsettle(deck, task)
            avoid = task.avoid
            fresh(task)
            task.forced, task.avoid = True, avoid
            deck.run.halted = ""
            deck.plan_due = True
            if isinstance(task.phase, (*FINAL, Backoff)):
                deck.move(task, WAITING)
        case e.TaskHeld():
            task.held = fact.held
            (deck.held.add if fact.held else deck.held.discard)(task.index)
            deck.plan_due = True
        case e.PriorityChanged():
            task.priority = fact.priority
            deck.mixed = True
            follow(deck, task)
