"""Which task starts next, and where: a pure function of the deck and the moment.

Tasks are taken in the order of the queue. The first that does not fit is the *head*: GPUs are held for it as they come
free, and a smaller task may fill in only where it does not touch them or is expected to end in time (backfill).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf

from .deck import Deck, Task
from .devices import Gpu
from .fit import (
    Need,
    bar,
    cpu_obstacle,
    cpu_slots_needed,
    crowd,
    host_obstacle,
    in_use,
    need_of,
    starts_barred,
    usable_limit,
)
from .phases import Attempt, Unknown
from .queue import LOOK_AT

COMBINE_UP_TO = 12
"""GPUs among which the nearest set is looked for in full."""
OVERDUE = 0.1
"""A task that is longer under way than expected: its end is put off by this share of its time so far."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A task that starts now, and what it takes."""

    task: int
    gpus: tuple[str, ...]
    cpu_slots: int
    reserved_mib: int
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs held for the head of the queue."""

    task: int
    since: float
    gpus: frozenset[str]
    start: float
    """When the last of them is expected to be free; inf: not known."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The next start, if any, and what is held for whom."""

    placement: Placement | None
    reservation: Reservation | None


def pick(deck: Deck, at: float) -> Choice:
    """The next task to start. Call again after it was applied, until nothing is left to place."""
    if starts_barred(deck, at) is not None:
        return Choice(None, None)
    reservation: Reservation | None = None
    full_pools: set[bool] = set()
    looks = LOOK_AT
    no_room = not deck.on_cpu and not any(gpu.slots_free() for gpu in deck.gpus.values())
    for place, _ in deck.queue.heads():
        task = deck.tasks[place.task]
        if host_obstacle(deck, task) is not None:
            continue
        on_gpus = task.spec.resources.gpus != 0
        if deck.on_cpu or not on_gpus:
            if on_gpus in full_pools:
                continue
            if cpu_obstacle(deck, task) is None:
                return Choice(Placement(task.index, (), cpu_slots_needed(deck, task), 0), reservation)
            full_pools.add(on_gpus)
            continue
        if no_room:
            # Nothing can fill in either, so which GPUs to hold is a question for later.
            reservation = reservation or Reservation(task.index, _since(deck, task, at), frozenset(), inf)
            continue
        if not looks:
            break
        looks -= 1
        need = need_of(deck, task)
        chosen = place_on(deck, task, need, at, reservation)
        if chosen:
            reserved_mib = _reserve_mib(deck, need, chosen)
            return Choice(Placement(task.index, chosen, 0, reserved_mib, need.alone), reservation)
        if reservation is None:
            reservation = reserve(deck, task, need, at)
    return Choice(None, reservation)


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
    if held:
        room = [gpu for gpu in room if gpu.uuid not in held]
    fresh = [gpu for gpu in room if not gpu.used]
    fresh_left = max(0, usable_limit(deck) - len(in_use(deck) | held))
    if len(fresh) > fresh_left:
        room = [gpu for gpu in room if gpu.used] + _best(fresh, fresh_left, task.avoid)
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
    """The emptiest first, then by preference; GPUs that the task failed on last; several of them near each other."""
    ranked = sorted(gpus, key=lambda gpu: (gpu.uuid in avoid, len(gpu.holders), gpu.order))
    linked = count > 1 and any(gpu.links for gpu in ranked)
    if not linked or len(ranked) <= count or len(ranked) > COMBINE_UP_TO:
        return ranked[:count]
    places = {gpu.uuid: place for place, gpu in enumerate(ranked)}

    def cost(group: tuple[Gpu, ...]) -> tuple[int, int, int]:
        nearness = sum(one.links.get(other.uuid, 0) for one, other in combinations(group, 2))
        failed_on = sum(gpu.uuid in avoid for gpu in group)
        return failed_on, -nearness, sum(places[gpu.uuid] for gpu in group)

    return list(min(combinations(ranked, count), key=cost))


def may_fill(deck: Deck, task: Task, at: float, reservation: Reservation) -> bool:
    """Whether a task may use GPUs that are held for the head: only if it is expected to be gone in time."""
    if task.index == reservation.task:
        return True
    expected = deck.expected_s(task)
    patience = deck.settings.gang_patience_s
    if expected is None:
        return at - reservation.since < patience
    limit = at + patience if reservation.start == inf else reservation.start
    return at + expected <= limit


def expected_end(deck: Deck, attempt: Attempt, at: float) -> float:
    """When an attempt of ours is expected to free its slots; inf: not known."""
    task = deck.active.get(attempt.token)
    expected = None if task is None or isinstance(task.phase, Unknown) else deck.expected_s(task)
    if expected is None:
        return inf
    end = attempt.at + expected
    return end if end > at else at + OVERDUE * (at - attempt.at)


def reserve(deck: Deck, task: Task, need: Need, at: float) -> Reservation | None:
    """GPUs to hold for a task that does not fit now; None where it cannot be placed whatever ends (others pass)."""
    if need.gpus < 1 or need.gpus > usable_limit(deck):
        return None
    free_at: list[tuple[float, bool, int, str]] = []
    for gpu in deck.gpus.values():
        if bar(deck, gpu, need, at) is None:
            when = available_at(deck, gpu, need, at)
            if when is not None:
                free_at.append((when, gpu.uuid in task.avoid, gpu.order, gpu.uuid))
    if len(free_at) < need.gpus:
        return None
    chosen = sorted(free_at)[: need.gpus]
    uuids = frozenset(item[3] for item in chosen)
    start = max(chosen[-1][0], _limit_allows_at(deck, uuids, at))
    return Reservation(task.index, _since(deck, task, at), uuids, start)


def _since(deck: Deck, task: Task, at: float) -> float:
    """Since when a task has been the head."""
    known = deck.heads.get("gpu")
    return known[1] if known is not None and known[0] == task.index else at


def _limit_allows_at(deck: Deck, chosen: frozenset[str], at: float) -> float:
    """When so few other GPUs are in use that `keep_free` lets these be taken together."""
    ends = sorted(
        max(expected_end(deck, attempt, at) for attempt in deck.gpus[uuid].holders.values())
        for uuid in in_use(deck) - chosen
    )
    too_many = len(ends) - (usable_limit(deck) - len(chosen))
    return ends[too_many - 1] if too_many > 0 else at


def available_at(deck: Deck, gpu: Gpu, need: Need, at: float) -> float | None:
    """When our attempts on a GPU will leave room for the need; None: never."""
    if crowd(gpu, need) is None:
        return at
    held, exclusive = gpu.holders, gpu.exclusive
    ends = sorted((expected_end(deck, attempt, at), token) for token, attempt in held.items())
    left = dict(held)
    try:
        gpu.holders = left
        for end, token in ends:
            del left[token]
            if gpu.exclusive == token:
                gpu.exclusive = ""
            if crowd(gpu, need) is None:
                return end
    finally:
        gpu.holders, gpu.exclusive = held, exclusive
    return None
