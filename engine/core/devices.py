"""GPUs as the scheduler sees them: who holds a slot, how much memory is spoken for, and who else is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from .phases import Attempt
from .readings import GpuReading, Process
from .spec import DeckSettings

DRAIN_S = 5.0
"""Memory of an attempt that has just ended may still show for this long."""
PROBES_S = (60.0, 300.0, 900.0)
"""How long a quarantined GPU rests before the 1st, 2nd, 3rd and every further probe."""
GANG_PROBE_S = 900.0
"""A task on several GPUs may probe a quarantined one this long after a smaller one might have."""
STALE_S = 5.0
"""Readings come once a second; one that is older says that the driver hangs."""


@dataclass(slots=True)
class Quarantine:
    """Nothing starts here but one probe at a time, from `probe_at` on."""

    probe_at: float
    step: int
    probing: str = ""
    """Token of the probe that runs."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Who else computes on a GPU: the largest of them."""

    user: str
    """"": not known."""
    pid: int
    """0: nobody that the driver lists, but memory that no process of ours explains."""
    used_mib: int | None
    more: int = 0
    """Processes of others beside this one."""

    @property
    def who(self) -> str:
        return self.user or "another process"

    @property
    def what(self) -> str:
        """ "pid 4711, 31.0 GiB and 1 more"."""
        memory = "" if self.used_mib is None else f", {gib(self.used_mib)}"
        return f"pid {self.pid}{memory}" + (f" and {self.more} more" if self.more else "")

    def __str__(self) -> str:
        if not self.pid:
            return f"{gib(self.used_mib or 0)} that no process of ours explains"
        return f"{self.who}, {self.what}"


@dataclass(slots=True, eq=False)
class Gpu:
    """One GPU. Sizes in MiB, times in seconds of CLOCK_BOOTTIME."""

    uuid: str
    index: int
    order: int
    """Place in the deck's preference, from 0."""
    slots: int | Literal["auto"] = 1
    total_mib: int | None = None
    model: str = ""
    links: Mapping[str, int] = field(default_factory=dict[str, int])
    node: str = ""
    """The node that it is on, where that is not this box; a task's GPUs are all on one."""
    simulated: bool = False
    unread: bool = False
    """Nothing starts here before its first reading has told who else uses it."""
    holders: dict[str, Attempt] = field(default_factory=dict[str, Attempt])
    """Attempts of ours that hold a slot here, by token."""
    exclusive: str = ""
    """Token of the holder that wants no other beside it."""
    changed_at: float = -1e9
    """Last start or end of ours here."""
    ended_at: float = -1e9
    reading: GpuReading | None = None
    lost: str = ""
    claimed: str = ""
    """Which other deck has it ("deck pets-sweep of alice has it (engine 8123)"); empty: none."""
    claimed_at: float = -1e9
    """When another deck was last known to have it."""
    others_mib: int = 0
    """Memory that is not our attempts'."""
    foreign: Foreign | None = None
    """Who else computes here."""
    beside: dict[int, int] = field(default_factory=dict[int, int])
    """Their processes: MiB by pid; 0: memory that no process of ours explains."""
    quiet_until: float = -1e9
    """Others have just left: not free before this."""
    mark: Literal["", "drain", "take"] = ""
    quarantine: Quarantine | None = None
    first_seen: dict[int, float] = field(default_factory=dict[int, float])
    """When a process id first showed up here."""
    surplus: int = 0
    """Holders beyond its slots since it was given fewer; none starts before they are gone."""

    @property
    def used(self) -> bool:
        return bool(self.holders)

    @property
    def avoided(self) -> bool:
        """Others use it, or have only just left, and the user did not take it."""
        return self.mark != "take" and (self.foreign is not None or self.quiet_until > 0)

    def slots_free(self) -> bool:
        return not self.exclusive and (self.slots == "auto" or len(self.holders) < self.slots)

    def share_mib(self) -> int:
        """What counts for a task that says nothing of its memory; 0 where it has the card to itself, or all is shared
        by memory."""
        if self.total_mib is None or not isinstance(self.slots, int) or self.slots < 2:
            return 0
        return self.total_mib // self.slots

    def unpromised_mib(self) -> int:
        """What the reservations and shares of our own attempts leave of the card."""
        promised = sum(attempt.reserved_mib or self.share_mib() for attempt in self.holders.values())
        return (self.total_mib or 0) - promised

    def free_mib(self) -> int | None:
        """Memory not spoken for: total minus others' minus, for each of ours, the larger of reserved and measured.

        A holder that reserved nothing counts with its share of the card where it has several slots. None: the card's
        size is not known.
        """
        if self.total_mib is None:
            return None
        share = self.share_mib()
        spoken = 0
        for attempt in self.holders.values():
            spoken += max(attempt.reserved_mib or share, attempt.measured.get(self.uuid, 0))
        return self.total_mib - self.others_mib - spoken

    def take(self, attempt: Attempt, *, exclusive: bool, at: float) -> None:
        self.holders[attempt.token] = attempt
        attempt.beside[self.uuid] = dict(self.beside)
        self.changed_at = max(self.changed_at, at)
        if exclusive:
            self.exclusive = attempt.token

    def forget_neighbours(self) -> None:
        """An engine that comes later has not seen who was beside these attempts at their start: its first reading of
        the GPU stands for that."""
        for attempt in self.holders.values():
            attempt.beside.pop(self.uuid, None)

    def release(self, token: str, *, at: float) -> None:
        if self.holders.pop(token, None) is None:
            return
        self.surplus = max(0, self.surplus - 1)
        self.changed_at = max(self.changed_at, at)
        self.ended_at = max(self.ended_at, at)
        if self.exclusive == token:
            self.exclusive = ""


def gib(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB"


def is_stale(gpu: Gpu, now: float) -> bool:
    """Whether its newest reading tells how it was, not how it is."""
    return gpu.reading is not None and now - gpu.reading.at > STALE_S


def observe(gpu: Gpu, reading: GpuReading, settings: DeckSettings, *, now: float) -> Process | None:
    """Take a reading in: our attempts' memory, others' memory, and whether others use the GPU.

    A reading taken before our last start or end here proves nothing: the last verdict stands. Times to come are those
    of an earlier boot.
    """
    gpu.reading = reading
    gpu.unread = False
    gpu.lost = reading.lost
    if reading.lost or reading.at < gpu.changed_at <= now:
        return None
    if reading.total_mib:
        gpu.total_mib = reading.total_mib
    ours, strangers, graphics_mib = _split(gpu, reading)
    ours_mib = _measure(gpu, ours, reading, strangers)
    used = reading.used_mib or 0
    unexplained = max(0, used - ours_mib - graphics_mib)
    draining = gpu.ended_at <= now < gpu.ended_at + DRAIN_S
    others = max(0, used - ours_mib)
    if draining:
        strangers = [process for process in strangers if process.visible]
        told = graphics_mib + sum(process.used_mib or 0 for process in strangers)
        others = min(others, max(gpu.others_mib, told))
    gpu.others_mib = others
    foreign = _largest(strangers)
    if not strangers and not draining and unexplained > settings.foreign_memory_mib and not gpu.simulated:
        foreign = Foreign("", 0, unexplained)
    return _verdict(gpu, foreign, strangers, unexplained, settings, now)


def note_claims(gpus: Iterable[Gpu], held: Mapping[str, str], now: float) -> None:
    """Take in which of *gpus* other decks have (by UUID), and who."""
    for gpu in gpus:
        words = held.get(gpu.uuid, "")
        if words or gpu.claimed:
            gpu.claimed_at = now
        gpu.claimed = words


def _split(gpu: Gpu, reading: GpuReading) -> tuple[list[Process], list[Process], int]:
    """Our processes, strangers that compute, and the memory of graphics processes."""
    ours: list[Process] = []
    strangers: list[Process] = []
    graphics_mib = 0
    first_start = min((attempt.at for attempt in gpu.holders.values()), default=None)
    seen: dict[int, float] = {}
    for process in reading.processes:
        seen[process.pid] = gpu.first_seen.get(process.pid, reading.at)
        if process.token in gpu.holders:
            ours.append(process)
        elif process.graphics:
            graphics_mib += process.used_mib or 0
        elif not process.visible and first_start is not None and seen[process.pid] >= first_start:
            ours.append(process)
        else:
            strangers.append(process)
    gpu.first_seen = seen
    return ours, strangers, graphics_mib


def _measure(gpu: Gpu, ours: list[Process], reading: GpuReading, strangers: list[Process]) -> int:
    """Attribute memory to the attempts that hold the GPU. Returns the sum."""
    if not gpu.holders:
        return 0
    by_token = dict.fromkeys(gpu.holders, 0)
    for process in ours:
        if process.token in by_token:
            by_token[process.token] += process.used_mib or 0
    # In a container nothing tells which of several attempts a process belongs to.
    _share(by_token, list(by_token), sum(process.used_mib or 0 for process in ours if process.token not in by_token))
    untold = {process.token for process in ours if process.used_mib is None}
    if untold and not strangers:
        # The driver names no memory by process: what the card says is used is theirs.
        of = [token for token in by_token if token in untold] or list(by_token)
        _share(by_token, of, max(0, (reading.used_mib or 0) - sum(by_token.values())))
    for token, mib in by_token.items():
        attempt = gpu.holders[token]
        attempt.measured[gpu.uuid] = mib
        attempt.peak_mib = max(attempt.peak_mib, mib)
    return sum(by_token.values())


def _share(by_token: dict[str, int], of: Sequence[str], mib: int) -> None:
    """Add *mib* to these in equal parts."""
    for place, token in enumerate(of):
        by_token[token] += mib // len(of) + (place < mib % len(of))


def _largest(strangers: list[Process]) -> Foreign | None:
    if not strangers:
        return None
    largest = max(strangers, key=lambda process: process.used_mib or 0)
    return Foreign(largest.user, largest.pid, largest.used_mib, len(strangers) - 1)


def _verdict(
    gpu: Gpu,
    foreign: Foreign | None,
    strangers: list[Process],
    unexplained_mib: int,
    settings: DeckSettings,
    now: float,
) -> Process | None:
    had = gpu.foreign is not None
    gpu.foreign = foreign
    present = strangers or [Process(0, unexplained_mib)]
    gpu.beside = {process.pid: process.used_mib or 0 for process in present} if foreign else {}
    for attempt in gpu.holders.values():
        attempt.beside.setdefault(gpu.uuid, dict(gpu.beside))
    if foreign:
        gpu.quiet_until = -1e9
        return _joined(gpu, present, settings, anew=not had)
    if had and now >= gpu.claimed_at + DRAIN_S:
        gpu.quiet_until = now + settings.foreign_quiet_s
    elif now >= gpu.quiet_until:
        gpu.quiet_until = -1e9
    return None


def _joined(gpu: Gpu, present: list[Process], settings: DeckSettings, *, anew: bool) -> Process | None:
    """Mark the attempts that somebody has come beside, or taken much more memory, since they started.

    Returns who it was when that is news: the first for an attempt, or on a GPU that nobody else used.
    """
    news: list[Process] = []
    for attempt in gpu.holders.values():
        before = attempt.beside[gpu.uuid]
        since = [process for process in present if _is_more(process, before, settings.foreign_memory_mib)]
        before.update({process.pid: process.used_mib or 0 for process in since})
        if since and (anew or not attempt.joined):
            news = news or since
        attempt.joined = attempt.joined or bool(since)
    return max(news, key=lambda process: process.used_mib or 0, default=None)


def _is_more(process: Process, before: Mapping[int, int], most_mib: int) -> bool:
    return process.pid not in before or (process.used_mib or 0) > before[process.pid] + most_mib


COMBINE_UP_TO = 12
"""GPUs among which the best set is looked for in full."""


def together(ranked: Sequence[Gpu], count: int, avoid: frozenset[str]) -> list[Gpu]:
    """*count* of these, which come in the order of preference; those in *avoid* only where there is no other way."""
    mixed = len({gpu.model for gpu in ranked}) > 1
    if len(ranked) <= count or not (mixed or any(gpu.links for gpu in ranked)):
        return list(ranked[:count])
    if len(ranked) > COMBINE_UP_TO:
        return _of_one_model(ranked, count)
    places = {gpu.uuid: place for place, gpu in enumerate(ranked)}

    def cost(group: tuple[Gpu, ...]) -> tuple[int, int, int, int]:
        failed_on = sum(gpu.uuid in avoid for gpu in group)
        models = len({gpu.model for gpu in group}) if mixed else 1
        nearness = sum(one.links.get(other.uuid, 0) for one, other in combinations(group, 2))
        return failed_on, models, -nearness, sum(places[gpu.uuid] for gpu in group)

    return list(min(combinations(ranked, count), key=cost))


def by_node(gpus: Sequence[Gpu]) -> list[list[Gpu]]:
    """Those of each node together; nodes and what is on them in the order in which they come."""
    nodes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        nodes.setdefault(gpu.node, []).append(gpu)
    return list(nodes.values())


def of_one_node(gpus: Sequence[Gpu], count: int) -> list[Gpu]:
    """Those of the first node that has enough; empty where none has."""
    for found in by_node(gpus):
        if len(found) >= count:
            return found
    return []


def mixed_in_words(models: Sequence[str]) -> str:
    """A warning for a task on GPUs of several models; empty where they are alike."""
    return f"mixed models: {' and '.join(models)}" if len(models) > 1 else ""


def _of_one_model(ranked: Sequence[Gpu], count: int) -> list[Gpu]:
    """The first that are alike, where there are enough of any kind."""
    for first in ranked:
        alike = [gpu for gpu in ranked if gpu.model == first.model]
        if len(alike) >= count:
            return alike[:count]
    return list(ranked[:count])
