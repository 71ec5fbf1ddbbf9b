"""Which task starts next, and where: a pure function of the deck and the moment.

Tasks are taken in the order of the queue. The first that does not fit is the *head*: GPUs, or cores and memory of the
host, are held for it as they come free, and a smaller task may fill in only where it does not touch them or is expected
to end in time (backfill).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf

from . import events as e
from . import inputs as i
from .deck import Deck, Task
from .devices import Gpu, of_one_node, together
from .effects import CheckDone, Gather, Launch
from .fit import (
    Need,
    bar,
    cluster_obstacle,
    cpu_obstacle,
    cpu_slots_needed,
    crowd,
    host_obstacle,
    in_use,
    need_of,
    starts_barred,
    usable_limit,
)
from .gone import doing
from .phases import Queued
from .queue import LOOK_AT
from .readiness import arrivals, cached_by_outputs, cached_now, has_succeeded, reconsider, unproven
from .reserve import Reservation, held_on_host, hold_on_host, may_fill, reserve, since, slots_free_at
from .turn import Turn


@dataclass(frozen=True, slots=True)
class Placement:
    """A task that starts now, and what it takes."""

    task: int
    gpus: tuple[str, ...]
    cpu_slots: int
    reserved_mib: int
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The next start, if any, and what is held for whom."""

    placement: Placement | None
    reservation: Reservation | None
    """GPUs."""
    holds: tuple[Reservation, ...] = ()
    """Cores and memory of the host."""


def pick(deck: Deck, at: float) -> Choice:
    """The next task to start. Call again after it was applied, until nothing is left to place."""
    if starts_barred(deck, at) is not None:
        return Choice(None, None)
    if deck.cluster:
        return Choice(_submit(deck), None)
    return _Pass(deck, at).run()


def _submit(deck: Deck) -> Placement | None:
    """The first task in the queue that may be a job now: where it runs, and when, is the cluster's to say."""
    if cluster_obstacle(deck) is not None:
        return None
    ready = (place.task for place, _ in deck.queue.heads() if host_obstacle(deck, deck.tasks[place.task]) is None)
    task = next(ready, None)
    return None if task is None else Placement(task, (), 1, 0)


@dataclass(slots=True)
class _Pass:
    """One way through the queue, in its order."""

    deck: Deck
    at: float
    reservation: Reservation | None = None
    holds: list[Reservation] = field(default_factory=list[Reservation])
    full_pools: set[bool] = field(default_factory=set[bool])
    """Pools of CPU slots, of tasks on GPUs and of others, whose next task does not fit."""
    looks: int = LOOK_AT
    """Shapes that may still be tried on GPUs."""
    room: bool = False
    """Some GPU has a free slot."""

    def run(self) -> Choice:
        deck = self.deck
        self.room = any(gpu.slots_free() for gpu in deck.gpus.values())
        last = None
        for place, _ in deck.queue.heads():
            if not deck.on_cpu and not self.looks:
                break
            last = place
            found = self._try(deck.tasks[place.task])
            if found is not None:
                return self._choice(found)
        else:
            return self._choice(None)
        # However many GPU tasks wait, those that need no GPU have their turn.
        for place, _ in deck.queue.heads(without_gpus=True):
            if last is not None and place <= last:
                continue
            found = None if False in self.full_pools else self._try(deck.tasks[place.task])
            if found is not None or False in self.full_pools:
                return self._choice(found)
        return self._choice(None)

    def _choice(self, placement: Placement | None) -> Choice:
        return Choice(placement, self.reservation, tuple(self.holds))

    def _try(self, task: Task) -> Placement | None:
        host = host_obstacle(self.deck, task)
        if host is not None and host.kind in ("max_parallel", "outputs"):
            return None
        if self.deck.on_cpu or task.spec.resources.gpus == 0:
            return self._on_cpu(task, fits=host is None)
        return self._on_gpus(task, fits=host is None)

    def _on_cpu(self, task: Task, *, fits: bool) -> Placement | None:
        deck = self.deck
        pool = task.spec.resources.gpus != 0
        if pool in self.full_pools or held_on_host(deck, task, self.at, self.holds) is not None:
            return None
        no_slot = cpu_obstacle(deck, task) is not None
        if fits and not no_slot:
            return Placement(task.index, (), cpu_slots_needed(deck, task), 0)
        if no_slot:
            self.full_pools.add(pool)
        self._hold_on_host(task, slots_free_at(deck, task, self.at) if no_slot else self.at)
        return None

    def _on_gpus(self, task: Task, *, fits: bool) -> Placement | None:
        deck = self.deck
        if self.reservation is not None and not self._of_use(task, fits=fits):
            return None
        if held_on_host(deck, task, self.at, self.holds) is not None:
            return None
        if not fits and hold_on_host(deck, task, self.at, not_before=self.at) is None:
            return None
        self.looks -= 1
        need = need_of(deck, task)
        chosen = place_on(deck, task, need, self.at, self.reservation) if self.room else ()
        if chosen and fits:
            return Placement(task.index, chosen, 0, _reserve_mib(deck, need, chosen), need.alone)
        if chosen:
            start = self._hold_on_host(task, self.at)
            if start is not None and self.reservation is None:
                first = since(deck, task, self.at)
                self.reservation = Reservation(task.index, first, frozenset(chosen), start)
        elif self.reservation is None and (self.room or not _takes_any_slot(need)):
            self.reservation = reserve(deck, task, need, self.at)
        return None

    def _of_use(self, task: Task, *, fits: bool) -> bool:
        """Whether a look at a task, once GPUs are held for another, can bring anything: a start, or a hold."""
        return self.room and (fits or self._may_hold(task))

    def _may_hold(self, task: Task) -> bool:
        held = {hold.of for hold in self.holds}
        asked = task.spec.resources
        return bool((asked.cpus and "cpus" not in held) or (asked.memory_mib and "memory" not in held))

    def _hold_on_host(self, task: Task, not_before: float) -> float | None:
        """Hold what a task needs of the host, where nobody before it does. Returns when it is expected to start."""
        wanted = hold_on_host(self.deck, task, self.at, not_before=not_before)
        if wanted is None:
            return None
        held = {hold.of for hold in self.holds}
        self.holds += [hold for hold in wanted if hold.of not in held]
        return max((hold.start for hold in wanted), default=inf)


def _takes_any_slot(need: Need) -> bool:
    """The next slot to come free is its own, wherever it is: while there is none, nothing need be held for it."""
    return need.gpus == 1 and not need.alone and need.memory_mib is None and not (need.only or need.not_on)


def _reserve_mib(deck: Deck, need: Need, chosen: Sequence[str]) -> int:
    if need.memory_mib is not None:
        return need.memory_mib
    if need.alone:
        return min(deck.gpus[uuid].total_mib or 0 for uuid in chosen)
    return 0


def place_on(deck: Deck, task: Task, need: Need, at: float, reservation: Reservation | None) -> tuple[str, ...]:
    """The GPUs that the task gets now, in the order it will see them; empty: it does not fit."""
    room = [gpu for gpu in deck.gpus.values() if crowd(gpu, need) is None and bar(deck, gpu, need, at) is None]
    held = held_from(deck, task, at, reservation)
    if held and reservation is not None:
        shut = held - reservation.leaves(need)
        room = [gpu for gpu in room if gpu.uuid not in shut]
    fresh = [gpu for gpu in room if not gpu.used]
    fresh_left = max(0, usable_limit(deck) - len(in_use(deck) | held))
    if len(fresh) > fresh_left:
        room = [gpu for gpu in room if gpu.used] + _best(fresh, fresh_left, task.avoid)
    if need.gpus > 1:
        room = of_one_node(room, need.gpus)
    if need.gpus < 1 or len(room) < need.gpus:
        return ()
    chosen = _best(room, need.gpus, task.avoid)
    return tuple(gpu.uuid for gpu in sorted(chosen, key=lambda gpu: gpu.order))


def held_from(deck: Deck, task: Task, at: float, reservation: Reservation | None) -> frozenset[str]:
    """GPUs that this task may not touch, because they are held for another."""
    if reservation is None or may_fill(deck, task, at, reservation):
        return frozenset()
    return reservation.gpus


def _best(gpus: Sequence[Gpu], count: int, avoid: frozenset[str]) -> list[Gpu]:
    """The emptiest first, then by preference; GPUs that the task failed on last; several of them alike and near each
    other."""
    ranked = sorted(gpus, key=lambda gpu: (gpu.uuid in avoid, len(gpu.holders), gpu.order))
    return ranked[:count] if count < 2 else together(ranked, count, avoid)


LOOK_PATIENCE_S = 2.0
"""Outputs on a file server that does not answer keep other tasks from starting no longer than this."""


def arrive(turn: Turn) -> None:
    deck = turn.deck
    looked: list[str] = []
    for task in arrivals(deck):
        if doing(deck, task) is not None:
            deck.held_for_work.append(task.index)
            continue
        if doubtful := unproven(deck, task):
            looked += [each.name for each in doubtful if each.index not in deck.proving]
            deck.proving.update(each.index for each in doubtful)
            deck.held_for_proof.append(task.index)
            continue
        verdict = cached_now(deck, task, turn.at)
        if verdict is True:
            deck.checking.add(task.index)
            looked.append(task.name)
        elif isinstance(verdict, e.TaskCached):
            decided(turn, task, verdict)
        else:
            decided(turn, task, None)
    if looked:
        deck.looked_until = turn.at + LOOK_PATIENCE_S
        deck.wake(deck.looked_until, "plan")
        turn.do(CheckDone(tuple(looked)))


def decided(turn: Turn, task: Task, fact: e.TaskCached | None) -> None:
    if fact is not None:
        turn.record(fact)
        return
    task.decided = True
    if not task.held:
        turn.deck.enqueue(task)


def done_checked(turn: Turn, item: i.DoneChecked) -> None:
    task = turn.deck.by_name.get(item.task)
    if task is not None and task.index in turn.deck.proving:
        _proven(turn, task, item)
    if task is None or task.index not in turn.deck.checking:
        return
    turn.deck.checking.discard(task.index)
    turn.deck.plan_due = True
    if not isinstance(task.phase, Queued):
        return
    if task.forced or task.decided:
        decided(turn, task, None)
        return
    decided(turn, task, cached_by_outputs(turn.deck, task, turn.at) if item.are_result else None)


def _proven(turn: Turn, task: Task, item: i.DoneChecked) -> None:
    """What a task that others need was found to be. Once all are known, those others arrive again."""
    deck = turn.deck
    deck.proving.discard(task.index)
    if item.spoilt and has_succeeded(task):
        turn.record(e.ResultSpoilt(task.name, turn.at))
        reconsider(deck, task)
    deck.prove(task)
    if not deck.proving:
        deck.arrivals.extend(deck.held_for_proof)
        deck.held_for_proof.clear()


def fill(turn: Turn) -> None:
    deck = turn.deck
    while (choice := _picked(deck, turn.at)).placement is not None:
        start(turn, choice.placement)
    gather(turn, choice.reservation)


def _picked(deck: Deck, at: float) -> Choice:
    choice = pick(deck, at)
    for held in filter(None, (choice.reservation, *choice.holds)):
        deck.heads[held.task] = held.since
    return choice


def gather(turn: Turn, reservation: Reservation | None) -> None:
    """Let a task that needs several GPUs keep those that come free, or let them go."""
    deck = turn.deck
    wanted: tuple[str, ...] = ()
    if reservation is not None and len(reservation.gpus) > 1:
        wanted = tuple(sorted(reservation.gpus))
    if wanted != deck.gathering:
        deck.gathering = wanted
        turn.do(Gather(wanted, deck.tasks[reservation.task].name if wanted and reservation is not None else ""))


def start(turn: Turn, placement: Placement) -> None:
    deck = turn.deck
    task = deck.tasks[placement.task]
    number = task.attempts + 1
    token = blake2b(f"{deck.run.seed}\0{task.name}\0{number}\0{task.revoked}".encode(), digest_size=12).hexdigest()
    rung = min(task.oom_ends, len(task.spec.ladder))
    card_mib = (deck.smallest_mib(placement.gpus) or 0) if task.spec.cards else 0
    fact = e.AttemptStarting(
        task=task.name,
        attempt=number,
        token=token,
        fingerprint=task.spec.fingerprint,
        gpus=placement.gpus,
        cpu_slots=placement.cpu_slots,
        reserved_mib=placement.reserved_mib,
        at=turn.at,
        wall=turn.wall,
        rung=rung,
        alone=placement.alone,
        outputs=task.spec.outputs,
        terms=_terms(turn, task),
        card_mib=card_mib,
        where="slurm" if deck.cluster else "",
    )
    turn.record(fact)
    unfinished = task.unfinished == task.spec.fingerprint and not task.again.fresh
    may_resume = task.spec.resume is not None and unfinished
    turn.do(
        Launch(task.name, number, token, placement.gpus, rung, may_resume, task.again.env, card_mib, task.revoked > 0)
    )


def _terms(turn: Turn, task: Task) -> int:
    """The number of a task's terms, under which the journal has them from now on."""
    deck = turn.deck
    terms = e.Terms(task.spec.policy, len(task.spec.ladder))
    number = deck.terms_numbers.get(terms)
    if number is None:
        number = len(deck.terms) + 1
        turn.record(e.TermsFixed(number, terms))
    return number
