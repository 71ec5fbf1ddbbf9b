"""What facts about attempts change: their start, their end, and what the task does next. Part of `apply`."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from . import events as e
from .apply_run import count_settled, unsettle
from .budget import cards
from .deck import Deck, Success, Task
from .learned import SEEN_S, Entry
from .node_faults import start_failed
from .phases import (
    FINAL,
    PRUNED,
    QUEUED,
    SUCCEEDED,
    WAITING,
    Attempt,
    Backoff,
    Cancelled,
    Closing,
    Ended,
    Failed,
    Queued,
    Running,
    Starting,
    Stopping,
)
from .prune import judge_anew, reached

FAST_S = 60.0
"""An attempt that gets past this shows that its GPU works."""

BLAMELESS = frozenset({"cancelled", "pruned", "interrupted", "port taken", "preempted", "node_fail"})
"""Reasons that say nothing about the command, however fast they came."""

AttemptFact = (
    e.AttemptStarting | e.AttemptSubmitted | e.AttemptRunning | e.AttemptEnded | e.LeaderEnded | e.StopRequested
    | e.CancelRequested | e.PointReached
)  # fmt: skip


def attempt_fact(deck: Deck, fact: AttemptFact) -> None:
    task = deck.by_name.get(fact.task)
    if task is None:
        if isinstance(fact, e.AttemptStarting):
            deck.past.started(fact)
        elif isinstance(fact, e.AttemptSubmitted):
            deck.past.submitted(fact)
        elif isinstance(fact, e.AttemptRunning):
            deck.past.running(fact)
        elif isinstance(fact, e.AttemptEnded):
            deck.gpu_s += fact.duration_s * deck.past.over(fact, deck.run.number)
            learn_success(deck, fact)
            if fact.outcome.ok:
                deck.learned.success(fact.fingerprint, fact.duration_s)
                learn_memory(deck, fact)
        return
    match fact:
        case e.AttemptStarting():
            _starting(deck, task, fact)
        case e.AttemptSubmitted():
            _current(task, fact.attempt).job = fact.job
        case e.AttemptRunning():
            attempt = _current(task, fact.attempt)
            _running(attempt, fact)
            if isinstance(task.phase, Starting):
                deck.move(task, Running(attempt))
        case e.StopRequested():
            attempt = _current(task, fact.attempt)
            if fact.why == "cancelled":
                attempt.unwanted_by = fact.by
            deck.move(task, Stopping(attempt, fact.why, fact.by, fact.at, fact.kill_at))
        case e.CancelRequested():
            attempt = _current(task, fact.attempt)
            attempt.unwanted, attempt.unwanted_by = True, fact.by
        case e.PointReached():
            reached(task, fact, _current(task, fact.attempt).fingerprint)
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
    task.decided = fact.fingerprint == task.spec.fingerprint
    if task.ended and task.ended[-1].outcome.ok:
        judge_anew(task)
    task.attempts = fact.attempt
    if fact.outputs != task.spec.outputs:
        deck.share_outputs(fact.outputs)
    ready(deck, task)
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
        fact.card_mib,
        alone=fact.alone,
        terms=deck.terms[fact.terms - 1] if 0 < fact.terms <= len(deck.terms) else None,
        spec=deck.begun.get(fact.token),
        where=fact.where,
        timeout_rung=fact.timeout_rung,
        began=not fact.where,
    )
    deck.move(task, Starting(attempt))
    for gpu in deck.gpus_of(attempt):
        if gpu.quarantine is not None:
            gpu.quarantine.probing = fact.token
            deck.wake(fact.at + FAST_S, "minute", task.index, fact.token)


def _running(attempt: Attempt, fact: e.AttemptRunning) -> None:
    attempt.pid, attempt.start_ticks, attempt.pid_ns = fact.pid, fact.start_ticks, fact.pid_ns
    attempt.began, attempt.pending, attempt.begins = True, "", None
    attempt.job, attempt.nodes = fact.job or attempt.job, fact.nodes
    if fact.at is not None:
        attempt.at, attempt.wall = fact.at, fact.wall


def ready(deck: Deck, task: Task) -> None:
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
    ended = Ended(
        fact.attempt, fact.outcome, attempt.gpus, fact.duration_s, fact.peak_mib, fact.wall, deck.run.number,
        attempt.rung, attempt.card_mib, attempt.nodes, attempt.job, attempt.timeout_rung,
    )  # fmt: skip
    task.ended = (*task.ended, ended)
    task.revoked = 0
    task.act = ""
    counts_as = fact.fingerprint or attempt.fingerprint
    _judge_nodes(task, fact, attempt)
    if not fact.never_ran:
        task.result = counts_as
    if fact.outcome.ok:
        learn_success(deck, fact)
        deck.prove(task)
        task.done_wall = fact.wall
        task.unfinished = ""
        task.left_out_done = None
        if not attempt.rebooted:
            deck.learned.success(fact.fingerprint, fact.duration_s)
            if counts_as == task.spec.fingerprint and not task.spec.given:
                learn_duration(deck, task.entry, fact.duration_s)
    elif not fact.never_ran:
        ran = attempt.began or fact.outcome.exit_code is not None
        missing = fact.outcome.reason == "spawn error" or (fact.avoid and start_failed(fact.outcome, fact.duration_s))
        if ran and not missing:
            task.unfinished = counts_as
            if task.again.fresh:
                # It has begun anew; what comes next may go on from there.
                task.again = replace(task.again, fresh=False)
        _charge(deck, task, fact, attempt)
    deck.gpu_s += fact.duration_s * cards(deck, task, attempt)
    if not attempt.rebooted:
        learn_memory(deck, fact)
    if fact.outcome.ok or fact.duration_s >= FAST_S:
        task.entry.fast_failures = 0
    elif fact.charged and fact.outcome.reason not in BLAMELESS:
        task.entry.fast_failures += 1
    if fact.duration_s >= FAST_S and not attempt.rebooted:
        task.entry.past_minute.update(dict.fromkeys(attempt.gpus, fact.at))
    _next_phase(deck, task, fact, attempt)
    probes_no_more(deck, attempt)


def probes_no_more(deck: Deck, attempt: Attempt) -> None:
    """The GPUs that it was to try may be tried by another."""
    for gpu in deck.gpus_of(attempt):
        if gpu.quarantine is not None and gpu.quarantine.probing == attempt.token:
            gpu.quarantine.probing = ""


def _judge_nodes(task: Task, fact: e.AttemptEnded, attempt: Attempt) -> None:
    task.avoid_nodes = task.avoid_nodes | frozenset(fact.avoid)
    if fact.outcome.reason == "node_fail":
        return
    good, bad = task.entry.good_starts, task.entry.failed_starts
    bad.update(fact.avoid)
    good.difference_update(fact.avoid)
    if attempt.began and not start_failed(fact.outcome, fact.duration_s):
        good.update(attempt.nodes)
        bad.difference_update(attempt.nodes)


def _charge(deck: Deck, task: Task, fact: e.AttemptEnded, attempt: Attempt) -> None:
    # What the file has become meanwhile begins without rungs.
    is_of_file = (fact.fingerprint or attempt.fingerprint) == task.spec.fingerprint
    if fact.outcome.reason == "oom" and not (fact.next == "queued" and not fact.charged):
        deck.learned.out_of_memory(attempt.fingerprint, attempt.reserved_mib)
    if fact.next == "queued" and not fact.charged:
        if fact.outcome.reason in ("interrupted", "preempted"):
            return
        if fact.outcome.reason == "oom":
            task.joined_requeues += 1
        else:
            task.free_requeues += 1
    elif fact.next == "backoff" and not fact.charged:
        if fact.outcome.reason == "port taken":
            task.port_retries += 1
        elif fact.outcome.reason != "preempted":
            task.node_retries += 1
        return
    elif fact.outcome.reason == "oom" and rungs_of(task, attempt):
        task.oom_ends += is_of_file
    elif fact.outcome.reason == "timeout" and fact.next == "queued":
        task.timeout_ends += is_of_file
    elif fact.charged and fact.next in ("backoff", "queued"):
        task.retries_used += 1
    if attempt.gpus:
        task.avoid = task.avoid | frozenset(attempt.gpus)


def rungs_of(task: Task, attempt: Attempt) -> int:
    """Length of the on_oom ladder that an attempt is on."""
    if attempt.terms is None or attempt.fingerprint == task.spec.fingerprint:
        return len(task.spec.ladder)
    return attempt.terms.rungs


def timeout_rungs_of(task: Task, attempt: Attempt) -> int:
    """The same of on_timeout."""
    if attempt.terms is None or attempt.fingerprint == task.spec.fingerprint:
        return len(task.spec.on_timeout)
    return attempt.terms.timeout_rungs


def _by(attempt: Attempt, fact: e.AttemptEnded) -> str:
    """Who cancelled it where the engine was not asked to: "scancel"."""
    told = attempt.where and fact.outcome.reason == "cancelled"
    return fact.outcome.detail.removeprefix("by ") if told else ""


def _next_phase(deck: Deck, task: Task, fact: e.AttemptEnded, attempt: Attempt) -> None:
    match fact.next:
        case "succeeded":
            deck.move(task, SUCCEEDED)
            count_settled(deck, task)
        case "failed":
            deck.move(task, Failed(fact.outcome))
            count_settled(deck, task)
        case "cancelled":
            deck.move(task, Cancelled(attempt.unwanted_by or _by(attempt, fact)))
            count_settled(deck, task)
        case "pruned":
            deck.move(task, PRUNED)
            count_settled(deck, task)
        case "backoff":
            deck.move(task, Backoff(fact.until, fact.outcome, fact.until - fact.at, fact.wall))
            deck.wake(fact.until, "backoff", task.index)
        case "queued":
            deck.move(task, QUEUED)
        case _:
            assert_never(fact.next)


def learn_success(deck: Deck, fact: e.AttemptEnded) -> None:
    deck.known.add(fact.task)
    if not fact.outcome.ok:
        return
    keep_success(deck, fact.task, Success(fact.wall, fact.task, fact.attempt, fact.fingerprint))
    task = deck.by_name.get(fact.task)
    if task is not None:
        deck.marks.succeeded(task, fact.wall, deck.tasks)


def note_earlier(deck: Deck, name: str, fingerprint: str) -> None:
    """Its outputs tell that it was done before this run; when, nobody knows, so nothing becomes stale by it."""
    keep_success(deck, name, Success(deck.run.started_wall, name, 0, fingerprint))


def keep_success(deck: Deck, name: str, success: Success) -> None:
    """Under another name it counts only where the name is gone or now means other work: a renamed task is still done,
    two tasks with the same command are two tasks."""
    deck.successes[name] = success
    task, work = deck.by_name.get(name), success.fingerprint
    if task is None or task.gone or task.spec.fingerprint != work:
        deck.by_fingerprint[work] = max(success, deck.by_fingerprint.get(work, success))


def forget_success(deck: Deck, name: str) -> None:
    """It counts no more, under no name."""
    success = deck.successes.pop(name, None)
    if success is not None and deck.by_fingerprint.get(success.fingerprint) == success:
        del deck.by_fingerprint[success.fingerprint]


def learn_duration(deck: Deck, entry: Entry, duration_s: float) -> None:
    """Of work that the file has. What a command with other words took tells nothing of its entry: it may have had ten
    times the steps."""
    first = entry.typical_s is None
    moves = entry.learn(duration_s) and ((first and not entry.is_large) or deck.settings.order == "longest")
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
