"""What is held for the head of the queue: GPUs, cores or host memory, and who may use them meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from .deck import Deck, Task
from .devices import Gpu, together
from .fit import Need, bar, cpu_slots_needed, crowd, free_memory_mib, in_use, usable_limit
from .phases import Attempt, Unknown

OVERDUE = 0.1
"""A task that is longer under way than expected: its end is put off by this share of its time so far."""


Resource = Literal["gpus", "cpus", "memory"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs, cores or host memory held for the head of the queue."""

    task: int
    since: float
    gpus: frozenset[str]
    start: float
    """When the last of what it waits for is expected to be free; inf: not known."""
    of: Resource = "gpus"
    amount: int = 0
    """Cores or MiB that it takes."""
    spare: int = 0
    """Cores or MiB that will be left beside it: free for others."""
    beside_mib: Mapping[str, int] = field(default_factory=dict[str, int])
    """GPUs on which others have a slot and so much memory beside it when it starts, by UUID."""

    def leaves(self, need: Need) -> frozenset[str]:
        """GPUs that such a need may have although they are held: it is not in the way there, however long it takes."""
        if need.memory_mib is None or need.alone:
            return frozenset()
        return frozenset(uuid for uuid, mib in self.beside_mib.items() if need.memory_mib <= mib)


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
    free: list[_Free] = []
    beside: dict[str, int] = {}
    for gpu in deck.gpus.values():
        if bar(deck, gpu, need, at) is None:
            room = available_at(deck, gpu, need, at)
            if room is not None:
                when, beside[gpu.uuid] = room
                free.append((when, gpu.uuid in task.avoid, gpu.order, gpu.uuid))
    free_at = _on_one_node(deck, free, need.gpus)
    if len(free_at) < need.gpus:
        return None
    all_free = free_at[need.gpus - 1][0]
    in_time = [deck.gpus[uuid] for when, _, _, uuid in free_at if when <= all_free]
    uuids = frozenset(gpu.uuid for gpu in together(in_time, need.gpus, task.avoid))
    start = max(all_free, _limit_allows_at(deck, uuids, at))
    left = {uuid: beside[uuid] for uuid in uuids if beside[uuid] > 0}
    return Reservation(task.index, since(deck, task, at), uuids, start, beside_mib=left)


_Free = tuple[float, bool, int, str]
"""When a GPU comes free, whether the task failed on it, its place in the deck's order, its UUID."""


def _on_one_node(deck: Deck, free: list[_Free], count: int) -> list[_Free]:
    """In the order in which they come free; of several nodes, that on which *count* are free first."""
    nodes: dict[str, list[_Free]] = {}
    for one in sorted(free):
        nodes.setdefault(deck.gpus[one[3]].node, []).append(one)
    enough = [found for found in nodes.values() if len(found) >= count]
    return min(enough, key=lambda found: found[count - 1]) if enough else []


def since(deck: Deck, task: Task, at: float) -> float:
    """Since when a task has been a head."""
    return deck.heads.get(task.index, at)


def _limit_allows_at(deck: Deck, chosen: frozenset[str], at: float) -> float:
    """When so few other GPUs are in use that `keep_free` lets these be taken together."""
    ends = sorted(
        max(expected_end(deck, attempt, at) for attempt in deck.gpus[uuid].holders.values())
        for uuid in in_use(deck) - chosen
    )
    too_many = len(ends) - (usable_limit(deck) - len(chosen))
    return ends[too_many - 1] if too_many > 0 else at


def available_at(deck: Deck, gpu: Gpu, need: Need, at: float) -> tuple[float, int] | None:
    """When our attempts on a GPU will leave room for the need, and how many MiB beside it; None: never."""
    held, exclusive = gpu.holders, gpu.exclusive
    ends = [(at, ""), *sorted((expected_end(deck, attempt, at), token) for token, attempt in held.items())]
    left = dict(held)
    try:
        gpu.holders = left
        for end, token in ends:
            left.pop(token, None)
            if gpu.exclusive == token:
                gpu.exclusive = ""
            if crowd(gpu, need) is None:
                return end, _beside_mib(gpu, need, end)
    finally:
        gpu.holders, gpu.exclusive = held, exclusive
    return None


def _beside_mib(gpu: Gpu, need: Need, end: float) -> int:
    """Memory that others may use beside the need, whatever order the attempts that are there now end in; 0: none."""
    free = gpu.free_mib()
    slots_left = gpu.slots == "auto" or len(gpu.holders) + 1 < gpu.slots
    if need.memory_mib is None or need.alone or free is None or end == inf or not slots_left:
        return 0
    return free - need.memory_mib


# -- cores and memory of the host -------------------------------------------------------------------------------------


def hold_on_host(deck: Deck, task: Task, at: float, *, not_before: float) -> list[Reservation] | None:
    """Cores and memory to hold for a task; None where it cannot have them whatever of ours ends (others pass).

    *not_before*: when all else that it needs is expected to be free.
    """
    asked = task.begun_spec.resources
    found: list[Reservation] = []
    wanted: dict[Resource, int] = {"cpus": asked.cpus or 0, "memory": asked.memory_mib or 0}
    for of, amount in wanted.items():
        if not amount:
            continue
        free = _cores_free(deck, amount, at) if of == "cpus" else _memory_free(deck, amount, at)
        if free is None:
            return None
        start, spare = free
        found.append(Reservation(task.index, since(deck, task, at), frozenset(), start, of, amount, spare))
    start = max([not_before, *(hold.start for hold in found)])
    return [replace(hold, start=start) for hold in found]


def _cores_free(deck: Deck, cpus: int, at: float) -> tuple[float, int]:
    """When so many cores are expected to be free, and how many more then. More than there are: when none is taken."""
    end, used = at, deck.cores_used
    for when, cores in _ends_of(deck, at, "cpus"):
        if used + cpus <= deck.cores:
            break
        end, used = when, used - cores
    return end, max(0, deck.cores - used - cpus)


def _memory_free(deck: Deck, mib: int, at: float) -> tuple[float, int] | None:
    """The same for host memory. None: never, as far as it lies with us; others have it."""
    free = free_memory_mib(deck)
    if mib <= free:
        return at, free - mib
    ends = _ends_of(deck, at, "memory")
    if not ends or mib > deck.memory_most_mib:
        return None
    for end, given_back in ends:
        free += given_back
        if mib <= free:
            return end, free - mib
    return ends[-1][0], 0


def _ends_of(deck: Deck, at: float, of: Resource) -> list[tuple[float, int]]:
    """When what attempts of ours take of the host comes free, the soonest first."""
    found: list[tuple[float, int]] = []
    for task, attempt in deck.lasting:
        asked = task.begun_spec.resources
        amount = asked.cpus if of == "cpus" else asked.memory_mib
        if amount:
            found.append((expected_end(deck, attempt, at), amount))
    return sorted(found)


def slots_free_at(deck: Deck, task: Task, at: float) -> float:
    """When enough CPU slots are expected to be free for a task that takes them, and does not fit now."""
    on_gpus = task.begun_spec.resources.gpus != 0
    total = deck.on_cpu_slots if on_gpus else deck.cpu_slots
    free = total - (deck.cpu_used - deck.cpu_tasks if on_gpus else deck.cpu_tasks)
    ends = sorted(
        (expected_end(deck, attempt, at), attempt.cpu_slots)
        for other, attempt in deck.lasting
        if (other.begun_spec.resources.gpus != 0) is on_gpus
    )
    end, needed = at, cpu_slots_needed(deck, task)
    for when, slots in ends:
        if free >= needed:
            break
        end, free = when, free + slots
    return end


def held_on_host(deck: Deck, task: Task, at: float, holds: Sequence[Reservation]) -> Reservation | None:
    """What is held for another of that which a task needs of the host; None: it may have it."""
    asked = task.begun_spec.resources
    for hold in holds:
        amount = (asked.cpus if hold.of == "cpus" else asked.memory_mib) or 0
        if amount > hold.spare and not may_fill(deck, task, at, hold):
            return hold
    return None
