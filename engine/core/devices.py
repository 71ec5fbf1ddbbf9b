"""GPUs as the scheduler sees them: who holds a slot, how much memory is spoken for, and who else is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .inputs import GpuReading, Process
from .phases import Attempt
from .spec import DeckSettings

DRAIN_S = 5.0
"""Memory of an attempt that has just ended may still show for this long."""
PROBES_S = (60.0, 300.0, 900.0)
"""How long a quarantined GPU rests before the 1st, 2nd, 3rd and every further probe."""
GANG_PROBE_S = 900.0
"""A task on several GPUs may probe a quarantined one this long after a smaller one might have."""
RELEARN = 1.1
"""Learned memory peaks are reserved with this margin."""


@dataclass(slots=True)
class Quarantine:
    """Nothing starts here but one probe at a time, from `probe_at` on."""

    probe_at: float
    step: int
    probing: str = ""
    """Token of the probe that runs."""


@dataclass(slots=True, eq=False)
class Gpu:
    """One GPU. Sizes in MiB, times in seconds of CLOCK_BOOTTIME."""

    uuid: str
    index: int
    order: int
    """Place in the deck's preference, from 0."""
    slots: int | Literal["auto"] = 1
    total_mib: int | None = None
    links: Mapping[str, int] = field(default_factory=dict[str, int])
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
    foreign: str = ""
    """Who else computes here ("alice, pid 4711, 31.0 GiB"); empty: nobody."""
    beside: dict[int, int] = field(default_factory=dict[int, int])
    """Their processes: MiB by pid; 0: memory that no process of ours explains."""
    foreign_since: float | None = None
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
        return self.mark != "take" and (bool(self.foreign) or self.quiet_until > 0)

    def slots_free(self) -> bool:
        return not self.exclusive and (self.slots == "auto" or len(self.holders) < self.slots)

    def free_mib(self) -> int | None:
        """Memory not spoken for: total minus others' minus, for each of ours, the larger of reserved and measured.

        A holder that reserved nothing counts with its share of the card where it has several slots. None: the card's
        size is not known.
        """
        if self.total_mib is None:
            return None
        share = self.total_mib // self.slots if isinstance(self.slots, int) and self.slots > 1 else 0
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


@dataclass(frozen=True, slots=True)
class Joined:
    """Somebody began to use a GPU that an attempt of ours is on."""

    user: str
    pid: int
    used_mib: int


def gib(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB"


def observe(gpu: Gpu, reading: GpuReading, settings: DeckSettings, *, now: float) -> Joined | None:
    """Take a reading in: our attempts' memory, others' memory, and whether others use the GPU.

    A reading taken before our last start or end here proves nothing: the last verdict stands.
    """
    gpu.reading = reading
    gpu.unread = False
    gpu.lost = reading.lost
    if reading.lost or reading.at < gpu.changed_at:
        return None
    if reading.total_mib:
        gpu.total_mib = reading.total_mib
    ours, strangers, graphics_mib = _split(gpu, reading)
    ours_mib = _measure(gpu, ours, reading, strangers)
    used = reading.used_mib or 0
    unexplained = max(0, used - ours_mib - graphics_mib)
    draining = now < gpu.ended_at + DRAIN_S
    others = max(0, used - ours_mib)
    if draining:
        strangers = [process for process in strangers if process.visible]
        told = graphics_mib + sum(process.used_mib or 0 for process in strangers)
        others = min(others, max(gpu.others_mib, told))
    gpu.others_mib = others
    foreign = _name_strangers(strangers)
    if not foreign and not draining and unexplained > settings.foreign_memory_mib and not gpu.simulated:
        foreign = f"{gib(unexplained)} that no process of ours explains"
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


def _name_strangers(strangers: list[Process]) -> str:
    if not strangers:
        return ""
    largest = max(strangers, key=lambda process: process.used_mib or 0)
    memory = "" if largest.used_mib is None else f", {gib(largest.used_mib)}"
    more = "" if len(strangers) == 1 else f" and {len(strangers) - 1} more"
    return f"{largest.user or 'another process'}, pid {largest.pid}{memory}{more}"


def _verdict(
    gpu: Gpu, foreign: str, strangers: list[Process], unexplained_mib: int, settings: DeckSettings, now: float
) -> Joined | None:
    had = bool(gpu.foreign)
    gpu.foreign = foreign
    present = strangers or [Process(0, unexplained_mib)]
    gpu.beside = {process.pid: process.used_mib or 0 for process in present} if foreign else {}
    for attempt in gpu.holders.values():
        attempt.beside.setdefault(gpu.uuid, dict(gpu.beside))
    if foreign:
        gpu.foreign_since = gpu.foreign_since if had else now
        gpu.quiet_until = -1e9
        return _joined(gpu, present, settings, anew=not had)
    gpu.foreign_since = None
    if had and now >= gpu.claimed_at + DRAIN_S:
        gpu.quiet_until = now + settings.foreign_quiet_s
    elif now >= gpu.quiet_until:
        gpu.quiet_until = -1e9
    return None


def _joined(gpu: Gpu, present: list[Process], settings: DeckSettings, *, anew: bool) -> Joined | None:
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
    if not news:
        return None
    first = max(news, key=lambda process: process.used_mib or 0)
    return Joined(first.user or "another process", first.pid, first.used_mib or 0)


def _is_more(process: Process, before: Mapping[int, int], most_mib: int) -> bool:
    return process.pid not in before or (process.used_mib or 0) > before[process.pid] + most_mib
