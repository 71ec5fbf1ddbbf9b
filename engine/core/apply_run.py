"""What a run's start and the facts about GPUs change. Part of `apply`."""

from __future__ import annotations

from dataclasses import replace

from . import events as e
from .build import stand_in
from .deck import Deck, Task
from .devices import GANG_PROBE_S, PROBES_S, Quarantine
from .events import PLAIN
from .gates import GateState
from .phases import (
    ACTIVE,
    FINAL,
    WAITING,
    Attempt,
    Backoff,
    Blocked,
    Cached,
    Cancelled,
    Failed,
    Pruned,
    Queued,
    Stopping,
    Succeeded,
    Waiting,
)
from .readiness import reconsider, success_of
from .task import Run
from .unasked import leave_unasked

BY_HAND = ("retry",)
"""What a run takes that a retry has begun: what is asked for, and what that waits for."""
LONGEST_WAIT_S = 600.0
"""A backoff that is taken up again is at most this long."""
_NOTHING: frozenset[str] = frozenset()
"""Shared: an empty set of its own would cost each task 216 bytes."""


def run_started(deck: Deck, fact: e.RunStarted) -> None:
    if deck.run.boot_id not in ("", fact.boot_id):
        rebooted(deck, fact.at, fact.wall)
    deck.proof += 1
    deck.acts.begun(fact.act, "", halted=deck.run.halted, paused=deck.paused)
    begun_by_hand = fact.takes == BY_HAND
    if begun_by_hand:
        _take_back_halted(deck)
        leave_unasked(deck)
    else:
        deck.unasked.clear()
    deck.taken_up.clear()
    deck.run = Run(
        fact.run, fact.seed, frozenset(fact.takes), ended=False, boot_id=fact.boot_id, host=fact.host,
        started_wall=fact.wall, options=fact.options, halted_before=deck.run.halted if begun_by_hand else "",
        part=fact.part,
    )  # fmt: skip
    if begun_by_hand:
        for index in deck.unasked:  # they are asked for later in this run, if they are
            fresh(deck.tasks[index])
        _renew_blocked(deck)
        return
    takes = deck.run.takes
    deck.unopened = True
    for task in deck.tasks:
        if not task.selected:
            renew(task)  # it may be left out since later in this run, and have begun in it
            done = task.left_out_done
            stand_in(deck, task, good=success_of(deck, task) is not None if done is None else done)
        elif isinstance(task.phase, ACTIVE):
            fresh(task)
        elif not isinstance(task.phase, FINAL) or _taken_up(deck, task, takes):
            if isinstance(task.phase, FINAL):
                deck.taken_up[task.index] = task.phase
            fresh(task)
            if not isinstance(task.phase, Waiting):
                deck.move(task, WAITING)


def _take_back_halted(deck: Deck) -> None:
    """What a halt kept from starting is asked for anew, task by task."""
    for task in deck.tasks if deck.counts[Queued] or deck.counts[Backoff] else ():
        if isinstance(task.phase, (Queued, Backoff)):
            fresh(task)
            deck.move(task, WAITING)
            reconsider(deck, task)


def _renew_blocked(deck: Deck) -> None:
    """All else is settled and stays so: a run for one task costs the same in a deck of 100,000."""
    for task in deck.tasks if deck.counts[Blocked] else ():
        if isinstance(task.phase, Blocked):
            fresh(task)


def run_ended(deck: Deck) -> None:
    deck.run.ended = True
    deck.run.halted = deck.run.halted or deck.run.halted_before
    if deck.run.part or not deck.run.halted:
        _leave_as_before(deck)
    deck.unasked.clear()
    deck.paused = ""
    for task in deck.tasks if deck.counts[Queued] or deck.is_part else ():  # what a halt has left, or a selection
        if isinstance(task.phase, Queued) and not task.selected:
            deck.move(task, WAITING)
        reconsider(deck, task)
    deck.heads.clear()
    for index in deck.held:
        deck.tasks[index].held = False
    deck.marks.touched |= deck.held
    deck.held.clear()


def _leave_as_before(deck: Deck) -> None:
    """What the run was to look at again and has not: it was left out, or was not in the file then."""
    for index, before in deck.taken_up.items():
        task = deck.tasks[index]
        if isinstance(task.phase, (Waiting, Queued)) and deck.gates_say(task) is not GateState.SHUT:
            if isinstance(task.phase, Queued):
                deck.move(task, WAITING)
            deck.move(task, before)
    deck.taken_up.clear()


def renew(task: Task) -> None:
    """A new budget: retries, rungs and free requeues as on the first day."""
    task.retries_used = task.oom_ends = task.free_requeues = task.joined_requeues = task.quarantine_requeues = 0
    task.port_retries = task.node_retries = task.timeout_ends = 0
    task.avoid = task.avoid_nodes = _NOTHING


def fresh(task: Task) -> None:
    """The same, and nothing that was said about it before."""
    renew(task)
    task.entry.failed_starts.clear()
    task.again = PLAIN
    task.act = ""
    task.decided = task.forced = False


def _taken_up(deck: Deck, task: Task, takes: frozenset[str]) -> bool:
    """Whether a run that begins looks at a finished task again: an unchanged success then comes out as cached."""
    match task.phase:
        case Failed():
            return bool(takes & {"failed", "all"})
        case Cancelled():
            return "cancelled" in takes
        case Pruned():
            return "all" in takes or ("changed" in takes and task.result != task.spec.fingerprint)
        case phase if isinstance(phase, FINAL):
            if task.result != task.spec.fingerprint and success_of(deck, task) is None:
                return bool(takes & {"changed", "all"})
            return bool(takes & {"failed", "changed", "stale", "all"})
        case _:
            return False


def count_settled(deck: Deck, task: Task) -> None:
    """A task has come to its end in this run: `halt` reckons with it, unless the file no longer has it."""
    if task.gone:
        return
    deck.run.settled += 1
    deck.run.failures += isinstance(task.phase, Failed)
    task.settled_in = deck.run.number


def unsettle(deck: Deck, task: Task) -> None:
    """A task that is taken up again no longer counts for `halt`."""
    if isinstance(task.phase, FINAL) and task.settled_in == deck.run.number:
        deck.run.settled -= 1
        deck.run.failures -= isinstance(task.phase, Failed)
        task.settled_in = 0


def rebooted(deck: Deck, now: float, wall: float) -> None:
    """The box was restarted since, or this is another one: clock readings of before mean nothing, and everything that
    ran on it is dead. What is left of backoffs, and when a cluster began what it runs, only the wall clock tells."""
    deck.deadlines.clear()
    for task, attempt in deck.lasting:
        if attempt.where:
            _by_this_clock(task, attempt, now - max(0.0, wall - attempt.wall))
        else:
            attempt.rebooted = True
    for gpu in deck.present_gpus.values():
        gpu.changed_at = gpu.ended_at = -1e9
        if gpu.quarantine is not None:
            gpu.quarantine.probe_at = now + PROBES_S[min(gpu.quarantine.step, len(PROBES_S) - 1)]
            _wake_probes(deck, gpu.quarantine.probe_at)
    for task in deck.tasks:
        if isinstance(task.phase, Backoff):
            waited_s = max(0.0, wall - task.phase.wall)
            until = now + max(0.0, task.phase.wait_s - waited_s)
            task.phase = replace(task.phase, until=until)
            deck.wake(until, "backoff", task.index)


def _by_this_clock(task: Task, attempt: Attempt, at: float) -> None:
    """Let the times of an attempt be such of this boot's clock, on which *at* is its beginning."""
    shift = at - attempt.at
    attempt.at = at
    for name in ("exited_at", "gone_at", "ends_at"):
        if (moment := getattr(attempt, name)) is not None:
            setattr(attempt, name, moment + shift)
    if isinstance(task.phase, Stopping):
        phase = task.phase
        task.phase = replace(phase, asked_at=phase.asked_at + shift, kill_at=phase.kill_at + shift)


def gpu_fact(deck: Deck, fact: e.GpuQuarantined | e.GpuReleased | e.GpuJoined | e.GpuMarked) -> None:
    gpu = deck.gpus.get(fact.gpu) or deck.outside.get(fact.gpu)
    deck.plan_due = True
    if isinstance(fact, e.GpuQuarantined):
        for name in fact.tasks:
            _requeue(deck, deck.by_name.get(name))
    if gpu is None:
        return
    match fact:
        case e.GpuQuarantined():
            gpu.quarantine = Quarantine(fact.probe_at, fact.step)
            _wake_probes(deck, fact.probe_at)
        case e.GpuReleased():
            gpu.quarantine = None
        case e.GpuJoined():
            for attempt in gpu.holders.values():
                attempt.joined, attempt.joined_wall = True, fact.wall
        case e.GpuMarked():
            gpu.mark = "" if fact.mark == "enable" else fact.mark
            if fact.mark == "enable":
                gpu.quarantine = None


def _wake_probes(deck: Deck, probe_at: float) -> None:
    deck.wake(probe_at, "plan")
    deck.wake(probe_at + GANG_PROBE_S, "plan")


def _requeue(deck: Deck, task: Task | None) -> None:
    """Take back what a broken GPU has cost a task: once, for a task that fails elsewhere too fails by itself."""
    if task is None or task.quarantine_requeues or isinstance(task.phase, (Succeeded, Cached, Cancelled, Pruned)):
        return
    if isinstance(task.phase, Failed) and task.settled_in != deck.run.number:
        # It failed in an earlier run, and this one was not asked to take it up.
        return
    task.quarantine_requeues += 1
    if not isinstance(task.phase, Failed):
        task.retries_used = max(0, task.retries_used - 1)
    if isinstance(task.phase, (Failed, Backoff)):
        unsettle(deck, task)
        deck.move(task, WAITING)
