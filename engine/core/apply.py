"""apply(deck, fact): the only writer of the state, live and at restore.

Facts of tasks that the task file no longer has teach durations and successes, and change nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from . import events as e
from .apply_acts import remember, remember_mark, remember_pause, taken_back
from .apply_attempt import attempt_fact, forget_success, keep_success, note_earlier, probes_no_more, ready
from .apply_run import count_settled, fresh, gpu_fact, rebooted, run_ended, run_started, unsettle
from .deck import Deck, Success, Task
from .events import AttemptStarting, Fact
from .phases import FINAL, QUEUED, WAITING, Backoff, Cached, Cancelled, Queued, Succeeded
from .readiness import spread
from .unasked import ask_for, ask_for_all
from .urgency import follow


def apply(deck: Deck, fact: e.Fact) -> None:
    """Fold one fact into the state."""
    deck.output_history.add(fact)
    match fact:
        case e.AttemptStarting() | e.AttemptRunning() | e.AttemptEnded() | e.LeaderEnded() | e.StopRequested():
            attempt_fact(deck, fact)
        case e.CancelRequested() | e.AttemptSubmitted() | e.PointReached():
            attempt_fact(deck, fact)
        case e.StartRevoked() | e.TaskCached() | e.TaskCancelled() | e.TaskRetried() | e.TaskAccepted():
            _task(deck, fact)
        case e.TaskHeld() | e.PriorityChanged():
            _task(deck, fact)
        case e.ResultSpoilt():
            forget_success(deck, fact.task)
            _task(deck, fact)
        case e.RunStarted():
            run_started(deck, fact)
        case e.OptionsChanged():
            deck.run.options = fact.options
        case e.TakesChanged():
            deck.run.takes, deck.run.halted_before = frozenset(fact.takes), ""
            ask_for_all(deck)
        case e.TermsFixed():
            deck.terms.append(fact.terms)
            deck.terms_numbers[fact.terms] = fact.number
        case e.BoxRestarted():
            deck.run.boot_id = fact.boot_id
            rebooted(deck, fact.at, fact.wall)
        case e.RunEnded():
            run_ended(deck)
        case e.DeckPaused():
            remember_pause(deck, fact)
            deck.paused = fact.why or "paused" if fact.paused else ""
            if not fact.paused:
                deck.run.halted = ""
            deck.plan_due = True
        case e.Halted():
            deck.run.halted = fact.by
        case e.GpuQuarantined() | e.GpuReleased() | e.GpuJoined() | e.GpuMarked():
            if isinstance(fact, e.GpuMarked):
                remember_mark(deck, fact)
            gpu_fact(deck, fact)
        case e.TakenBack():
            taken_back(deck, fact)
        case e.ShardsFixed():
            deck.shards[fact.entry] = fact.shards
        case _:
            assert_never(fact)


TaskFact = (
    e.StartRevoked
    | e.TaskCached
    | e.TaskCancelled
    | e.TaskRetried
    | e.TaskAccepted
    | e.TaskHeld
    | e.PriorityChanged
    | e.ResultSpoilt
)


def _task(deck: Deck, fact: TaskFact) -> None:
    task = deck.by_name.get(fact.task)
    if task is None:
        return
    if isinstance(fact, (e.TaskRetried, e.TaskCancelled, e.TaskHeld, e.PriorityChanged)):
        remember(deck, task, fact)
    match fact:
        case e.StartRevoked():
            task.attempts = fact.taken or task.attempts - 1
            task.revoked = 0 if fact.taken else task.revoked + 1
            if (attempt := task.attempt()) is not None:
                probes_no_more(deck, attempt)
            deck.move(task, QUEUED)
            deck.no_starts_until = max(deck.no_starts_until, fact.until)
            deck.wake(fact.until, "plan")
        case e.TaskCached():
            ready(deck, task)
            task.act = ""
            task.result = fact.fingerprint
            task.done_wall = fact.wall or deck.run.started_wall
            deck.prove(task)
            deck.move(task, Cached(fact.why, fact.done_as, fact.attempt))
            count_settled(deck, task)
            if fact.why == "outputs":
                note_earlier(deck, task.name, fact.fingerprint)
        case e.TaskCancelled():
            ready(deck, task)
            deck.move(task, Cancelled(fact.by))
            task.act = fact.act
            count_settled(deck, task)
        case e.TaskRetried():
            deck.proof += 1
            unsettle(deck, task)
            avoid = task.avoid
            fresh(task)
            task.act, task.forced, task.avoid = fact.act, not fact.again.changed, avoid | frozenset(fact.again.not_on)
            task.again = fact.again if fact.again != e.PLAIN else e.PLAIN
            deck.run.halted = ""
            deck.plan_due = True
            if isinstance(task.phase, (*FINAL, Backoff)):
                deck.move(task, WAITING)
            ask_for(deck, task)
        case e.ResultSpoilt():
            unsettle(deck, task)
            fresh(task)
            task.forced = True
            if isinstance(task.phase, FINAL):
                deck.move(task, WAITING)
            ask_for(deck, task)
        case e.TaskAccepted():
            _accepted(deck, task, fact)
        case e.TaskHeld():
            task.held = fact.held
            (deck.held.add if fact.held else deck.held.discard)(task.index)
            deck.marks.touched.add(task.index)
            deck.plan_due = True
        case e.PriorityChanged():
            task.priority = fact.priority
            deck.mixed = True
            follow(deck, task)


def _accepted(deck: Deck, task: Task, fact: e.TaskAccepted) -> None:
    """Its result counts from now on as that of today's work: a success of today, which makes nothing else stale. What
    did not succeed has left no result, and today's work does not go on from it: it would be half of each."""
    attempt = task.attempt()
    if attempt is not None:
        attempt.counts_as = fact.fingerprint
        return
    if not isinstance(task.phase, FINAL):
        return
    task.result = fact.fingerprint
    if isinstance(task.phase, (Succeeded, Cached)):
        keep_success(deck, task.name, Success(fact.wall, *task.made_by, fact.fingerprint))
        task.done_wall = fact.wall
    if not deck.replaying:
        deck.marks.follow(task)


def replay(deck: Deck, facts: Iterable[Fact]) -> dict[str, AttemptStarting]:
    """Fold a journal into a fresh deck. Returns the starts of the attempts that have not ended, by token."""
    starts: dict[str, AttemptStarting] = {}
    deck.replaying = True
    for fact in facts:
        apply(deck, fact)
        if isinstance(fact, AttemptStarting) and fact.task in deck.by_name:
            starts[fact.token] = fact
    deck.replaying = False
    deck.count_surplus()
    deck.no_starts_until = -1e9
    deck.unopened = True
    deck.marks.recount(deck.tasks)
    lasting = {token: fact for token, fact in starts.items() if token in deck.active}
    for fact in lasting.values():
        _keep_terms(deck.by_name[fact.task], fact)
    return lasting


def derive(deck: Deck) -> None:
    """Let what follows from the facts follow: queued and blocked. Without a run under way nothing is queued."""
    over, deck.run.ended = deck.run.ended, False
    spread(deck)
    deck.run.ended = over
    for task in deck.tasks if over else ():
        if isinstance(task.phase, Queued):
            deck.move(task, WAITING)


def _keep_terms(task: Task, fact: AttemptStarting) -> None:
    """An attempt is judged by what the file said when it began."""
    attempt = task.attempt()
    if attempt is None or attempt.spec is not None or attempt.terms is None:
        return
    terms, spec = attempt.terms, task.begun_spec
    other_work = attempt.fingerprint != spec.fingerprint
    if other_work or (terms.policy, fact.outputs) != (spec.policy, spec.outputs):
        ladder = (spec.work,) * terms.rungs if other_work else spec.ladder
        attempt.spec = replace(
            spec, fingerprint=attempt.fingerprint, policy=terms.policy, outputs=fact.outputs, ladder=ladder,
            on_oom=(), on_timeout=(),
        )  # fmt: skip
