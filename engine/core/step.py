"""The engine without the world: step(inputs) -> facts to write, and work to do once they are on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from . import events as e
from . import inputs as i
from .attempts import (
    REFUSED_WAIT_S,
    after_how_long,
    cut_short,
    end,
    ending,
    pending,
    released,
    resolve,
    spawned,
    stop,
    stop_rest,
    submitted,
)
from .deck import Deadline, Deck, Task
from .devices import note_claims, observe
from .dispatch import arrive, done_checked, fill, gather
from .effects import Warn
from .events import Fate
from .phases import WAITING, Attempt, Backoff, Closing, Queued, Running, Starting, Stopping, Unknown, Waiting
from .preempt import preempt
from .prune import is_known, lost_at
from .quarantine import Streaks
from .readiness import reconsider, spread
from .runs import take_over, take_up_changed
from .turn import Here, Step, Turn
from .unasked import unasked_waiting
from .urgency import spread_urgency
from .verbs import shutdown, take_up_stale, verb


class Core:
    """A deck and its short memory. One `step` at a time; the caller writes the facts, then does the effects."""

    def __init__(self, deck: Deck) -> None:
        self.deck = deck
        self.streaks = Streaks()
        self.here: Here | None = None
        """Where this engine runs, for runs that verbs begin; None: where the last run was."""

    def step(self, inputs: Sequence[i.Input], *, at: float, wall: float) -> Step:
        """Take inputs in, decide, fill free slots. *at*: CLOCK_BOOTTIME seconds; *wall*: seconds since the epoch."""
        turn = self._turn(at, wall)
        for item in inputs:
            take(turn, item)
        settle(turn)
        return turn.out

    def _turn(self, at: float, wall: float) -> Turn:
        self.deck.now, self.deck.wall_ahead = at, wall - at
        return Turn(self.deck, self.streaks, at, wall, here=self.here)

    def begin(self, fact: e.RunStarted) -> Step:
        """Start a run."""
        return self.act(lambda turn: turn.record(fact), at=fact.at, wall=fact.wall)

    def act(self, decide: Callable[[Turn], None], *, at: float, wall: float) -> Step:
        """A step in which *decide* says what happens, in the place of inputs."""
        turn = self._turn(at, wall)
        decide(turn)
        settle(turn)
        return turn.out

    def go_on(
        self,
        fates: Mapping[str, Fate],
        *,
        changed: bool,
        boot_id: str,
        at: float,
        wall: float,
        restarted: bool = False,
        takes: Sequence[str] = (),
    ) -> Step:
        """Continue an unfinished run after a restore; *fates* are `Launcher.recover`'s.

        *changed*: finished tasks that the file has changed since run again. *boot_id*: this boot's. *restarted*: on
        this boot too all that ran is gone, with the container that it ran in. *takes*: what the run takes up from
        now on, as in `RunStarted`; empty: what it did before.
        """
        turn = self._turn(at, wall)
        if restarted or (boot_id and self.deck.run.boot_id not in ("", boot_id)):
            turn.record(e.BoxRestarted(boot_id, at, wall))
        wanted = frozenset(takes) | (self.deck.run.takes & {"all"})
        if takes and wanted != self.deck.run.takes:
            turn.record(e.TakesChanged(tuple(sorted(wanted))))
        take_over(turn, fates)
        if changed:
            take_up_changed(turn)
        settle(turn)
        return turn.out


def take(turn: Turn, item: i.Input) -> None:
    match item:
        case i.Tick():
            pass
        case i.DoneChecked():
            done_checked(turn, item)
        case i.DevicesSampled():
            sampled(turn, item)
        case i.JournalState():
            turn.deck.unwritable = "" if item.writable else item.why or "no space left"
            turn.deck.plan_due = True
        case i.Verb():
            verb(turn, item)
        case i.Preempt():
            preempt(turn, item)
        case i.GpuVerb():
            if item.gpu in turn.deck.gpus:
                turn.record(e.GpuMarked(item.gpu, item.verb, item.act))
        case i.Shutdown():
            shutdown(turn, item)
        case _:
            task = turn.deck.active.get(item.token)
            if task is not None and (attempt := task.attempt()) is not None:
                told(turn, task, attempt, item)


def told(turn: Turn, task: Task, attempt: Attempt, item: i.OfAttempt) -> None:
    """Take in what is told of an attempt that lasts."""
    match item:
        case i.Submitted():
            submitted(turn, task, attempt, item)
        case i.Pending():
            pending(turn, task, attempt, item)
        case i.Spawned():
            spawned(turn, task, attempt, item)
        case i.SpawnRefused():
            refused(turn, task, attempt, item)
        case i.LeaderExited() | i.TreeGone() | i.Examined():
            ending(turn, task, attempt, item)
        case i.Progressed():
            attempt.ends_at = None if item.eta_s is None else turn.at + item.eta_s
            if turn.deck.heads:
                # Who may use what is held for the head of the queue depends on when others end.
                turn.deck.plan_due = True
        case i.Watched():
            if isinstance(task.phase, (Starting, Running)) and attempt.exited_at is None:
                stop(turn, task, attempt, "watch", item.why)
        case i.ReachedPoint():
            reached_point(turn, task, attempt, item)
        case _:
            assert_never(item)


def refused(turn: Turn, task: Task, attempt: Attempt, item: i.SpawnRefused) -> None:
    if isinstance(task.phase, Stopping):
        attempt.never_ran = True
        attempt.exited_at = attempt.gone_at = turn.at
        end(turn, task, attempt, e.Outcome(task.phase.why))
    else:
        note_claims([gpu for uuid, _ in item.claimed if (gpu := turn.deck.gpus.get(uuid))], dict(item.claimed), turn.at)
        until = turn.at if item.claimed or item.taken else turn.at + REFUSED_WAIT_S
        turn.record(e.StartRevoked(task.name, attempt.number, item.why, until, item.taken))
        reconsider(turn.deck, task)


def sampled(turn: Turn, item: i.DevicesSampled) -> None:
    deck = turn.deck
    deck.plan_due = True
    if item.mem_available_mib is not None:
        deck.memory_mib, deck.memory_at = item.mem_available_mib, turn.at
        deck.memory_most_mib = max(deck.memory_most_mib, item.mem_available_mib)
    if item.disk_free_mib is not None:
        deck.disk_free_mib = item.disk_free_mib
    if item.claimed is not None:
        note_claims(deck.gpus.values(), item.claimed, turn.at)
    present = deck.present_gpus
    for reading in item.readings:
        gpu = present.get(reading.uuid)
        joined = None if gpu is None else observe(gpu, reading, deck.settings, now=turn.at)
        if joined is not None:
            who, used_mib = joined.user or "another process", joined.used_mib or 0
            turn.record(e.GpuJoined(reading.uuid, who, joined.pid, used_mib, turn.at, turn.wall))


def reached_point(turn: Turn, task: Task, attempt: Attempt, item: i.ReachedPoint) -> None:
    """That a task has come so far and the verdict on it are facts of one turn: it is judged once, or not yet."""
    if not isinstance(task.phase, Running) or attempt.exited_at is not None:
        return
    prune, work = task.spec.extras.prune, attempt.fingerprint
    if prune is None or prune.metric != item.metric or item.point not in prune.at or work != task.spec.fingerprint:
        return
    if task.gone or is_known(task, item.metric, item.point, work):
        return
    turn.record(e.PointReached(task.name, attempt.number, item.metric, item.point, item.value))
    lost = lost_at(task, prune, item.point, item.value, turn.deck.by_name)
    if lost is not None:
        stop(turn, task, attempt, "pruned", lost.words(prune, item.point, item.value))


_QUIET_S = 0.5
"""A backoff that is over while nothing starts yet is looked at again after so long."""


def due(turn: Turn, deadline: Deadline) -> None:
    if deadline.kind == "plan":
        turn.deck.plan_due = True
        return
    task = turn.deck.tasks[deadline.task]
    if deadline.kind == "backoff":
        if turn.deck.quiet:  # who came to retry it finds it as it was
            turn.deck.wake(turn.at + _QUIET_S, "backoff", task.index)
        elif isinstance(task.phase, Backoff) and task.phase.until <= turn.at and not turn.deck.run.ended:
            turn.deck.move(task, WAITING)
            reconsider(turn.deck, task)
        return
    attempt = task.attempt()
    if attempt is None or attempt.token != deadline.token:
        return
    due_attempt(turn, deadline, task, attempt)


_STANDS = {"linger": Closing, "warned": Stopping}
"""What is to be stopped at such a deadline."""


def due_attempt(turn: Turn, deadline: Deadline, task: Task, attempt: Attempt) -> None:
    policy = task.begun_policy
    runs = isinstance(task.phase, (Starting, Running)) and attempt.exited_at is None
    waits = isinstance(task.phase, Closing) and policy.leftovers == "wait"
    if deadline.kind == "timeout" and runs:
        stop(turn, task, attempt, "timeout", "")
    elif deadline.kind == "timeout" and waits:
        cut_short(turn, task, attempt, "timeout", after_how_long(task))
    elif deadline.kind == "warn" and (runs or waits) and policy.warn_signal is not None:
        turn.do(Warn(attempt.token, policy.warn_signal))
    elif deadline.kind in ("linger", "warned") and isinstance(task.phase, _STANDS[deadline.kind]):
        stop_rest(turn, task, attempt)
    elif deadline.kind == "minute" and runs:
        released(turn, attempt)


def settle(turn: Turn) -> None:
    """Act on everything that the inputs have made possible."""
    deck = turn.deck
    for deadline in deck.due(turn.at):
        due(turn, deadline)
    for task in turn.touched:
        resolve(turn, task)
    while True:
        spread_urgency(deck)
        spread(deck)
        if deck.run.ended:
            return
        arrive(turn)
        if deck.arrivals:  # which one is first is known once all have their place
            deck.wake(turn.at, "plan")
            return
        if deck.dirty:  # what is cached opens gates, too
            continue
        looks = bool(deck.checking) and turn.at < deck.looked_until
        if deck.plan_due and not looks:
            deck.plan_due = False
            fill(turn)
        if not run_is_over(deck):
            return
        if not take_up_stale(turn):
            break
    turn.record(e.RunEnded(deck.run.number, turn.at, turn.wall))
    gather(turn, None)


def run_is_over(deck: Deck) -> bool:
    """The deck is settled, or halted with nothing left under way."""
    counts = deck.counts
    if deck.active or deck.stopping:
        return False
    if deck.run.halted:
        return True
    return not (counts[Queued] or counts[Backoff]) and counts[Waiting] == unasked_waiting(deck)


def at_standstill(deck: Deck) -> bool:
    """Nothing is under way, and nothing can start unless a user acts: only held tasks are left, or all is paused."""
    if deck.in_motion or any(not isinstance(task.phase, Unknown) for task in deck.active.values()):
        return False
    return bool(deck.paused or deck.run.halted) or deck.queue.count == 0
