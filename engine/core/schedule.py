"""Which task starts next, and where: a pure function of the deck and the moment.

Tasks are taken in the order of the queue. The first that does not fit is the *head*: GPUs, or cores and memory of the
host, are held for it as they come free, and a smaller task may fill in only where it does not touch them or is expected
to end in time (backfill).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from .deck import Deck, Task
from .devices import Gpu, of_one_node, together
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
from .queue import LOOK_AT
from .reserve import Reservation, held_on_host, hold_on_host, may_fill, reserve, since, slots_free_at


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
        if host is not None and host.kind in ("max_parallel", "outputs", "hours"):
            return None
        if self.deck.on_cpu or task.begun_spec.resources.gpus == 0:
            return self._on_cpu(task, fits=host is None)
        return self._on_gpus(task, fits=host is None)

    def _on_cpu(self, task: Task, *, fits: bool) -> Placement | None:
        deck = self.deck
        pool = task.begun_spec.resources.gpus != 0
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
        asked = task.begun_spec.resources
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
