"""What earlier attempts teach: how long a task takes and how much GPU memory, by fingerprint first, then by entry."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .devices import gib

KEPT = 31
"""Durations kept for an entry."""
KEPT_OF_ONE = 5
"""Durations kept for one fingerprint."""
LARGE = 500
"""An entry of more tasks has a place of its own in the queue, whatever is known of its durations: to move all that
waits when the first one is learned would hold up every slot."""
MUCH_LONGER = 1.25
"""By so much the longest duration of an entry has to grow before its tasks get other places."""
OOM_RAISE = 1.5
"""After an out-of-memory end the reservation grows by this factor."""
MARGIN = 0.05
"""A learned peak is reserved with so much more, because samples miss its tip and the next attempt is not the same,"""
MARGIN_MIB = 512
"""but with at least this much: a context of CUDA alone varies by hundreds of MiB."""
SEEN_S = 5.0
"""A shorter attempt was hardly sampled: it teaches no peak."""


class Peak(NamedTuple):
    """Highest memory seen on one card, and of how many attempts."""

    mib: int = 0
    attempts: int = 0

    def with_one(self, mib: int) -> Peak:
        return Peak(max(self.mib, mib), self.attempts + 1)


NO_PEAK = Peak()


@dataclass(frozen=True, slots=True)
class LearnedMemory:
    """What is reserved for `gpu_memory = "auto"`, and why."""

    mib: int
    peak: Peak
    of_entry: bool
    """The peak is that of other tasks of its entry."""
    raised: bool
    """It ran out of memory with what the peak asks for."""

    @property
    def why(self) -> str:
        """ "peak 10.7 GiB of 3 earlier attempts plus 5 %"."""
        if self.raised:
            return f"{OOM_RAISE:g} times what it ran out of memory with"
        count = f"{self.peak.attempts} earlier attempt{'s' * (self.peak.attempts != 1)}"
        margin = f"{MARGIN * 100:g} %" if self.peak.mib * MARGIN >= MARGIN_MIB else f"{MARGIN_MIB} MiB"
        return f"peak {gib(self.peak.mib)} of {count}{' of its entry' * self.of_entry} plus {margin}"


@dataclass(slots=True, eq=False)
class Entry:
    """One [[task]] table: what its tasks share at run time."""

    name: str
    tasks: list[int] = field(default_factory=list[int])
    running: int = 0
    """Attempts that hold slots, for max_parallel."""
    durations: deque[float] = field(default_factory=lambda: deque[float](maxlen=KEPT))
    longest_s: float | None = None
    placed_s: float | None = None
    """The longest when its tasks that wait last got their places in the queue."""
    typical_s: float | None = None
    peak: Peak = NO_PEAK
    fast_failures: int = 0
    """Failures within a minute in a row, over all its tasks."""
    past_minute: dict[str, float] = field(default_factory=dict[str, float])
    """GPUs on which one of its attempts got past a minute, and when last."""
    good_starts: set[str] = field(default_factory=set[str])
    """Nodes of a cluster on which one of its tasks has started, when one last tried,"""
    failed_starts: set[str] = field(default_factory=set[str])
    """and those on which one could not."""
    reached: dict[tuple[str, float], dict[str, tuple[str, float | None]]] = field(
        default_factory=dict[tuple[str, float], "dict[str, tuple[str, float | None]]"]
    )
    """By metric and point of `prune`, and by task: the work, and its best value there (None: not a number)."""

    @property
    def is_large(self) -> bool:
        return len(self.tasks) > LARGE

    def learn(self, duration_s: float) -> bool:
        """Take a successful duration in. True when it is the entry's first, or much longer than what those of its tasks
        that wait have their places by."""
        self.durations.append(duration_s)
        self.longest_s = max(self.longest_s or 0.0, duration_s)
        self.typical_s = _median(self.durations)
        if self.placed_s is not None and self.longest_s <= self.placed_s * MUCH_LONGER:
            return False
        self.placed_s = self.longest_s
        return True


class Learned:
    """Durations and memory peaks by fingerprint."""

    __slots__ = ("_floor_mib", "_peaks", "_seconds", "_seen_mib")

    def __init__(self) -> None:
        self._seconds: dict[str, tuple[float, ...]] = {}
        self._peaks: dict[str, Peak] = {}
        self._seen_mib: dict[str, int] = {}
        self._floor_mib: dict[str, int] = {}

    def success(self, fingerprint: str, duration_s: float) -> None:
        self._seconds[fingerprint] = (*self._seconds.get(fingerprint, ())[1 - KEPT_OF_ONE :], duration_s)

    def peak(self, fingerprint: str, mib: int) -> None:
        """The whole of an attempt was seen to need no more than this on a card."""
        self._peaks[fingerprint] = self._peaks.get(fingerprint, NO_PEAK).with_one(mib)

    def at_least(self, fingerprint: str, mib: int) -> None:
        """Part of an attempt was seen to need this much: it corrects a peak, it is none."""
        self._seen_mib[fingerprint] = max(mib, self._seen_mib.get(fingerprint, 0))

    def out_of_memory(self, fingerprint: str, reserved_mib: int) -> None:
        """An attempt ended out of memory: its peak teaches nothing, but what it had reserved was too little."""
        if reserved_mib:
            floor = int(reserved_mib * OOM_RAISE)
            self._floor_mib[fingerprint] = max(floor, self._floor_mib.get(fingerprint, 0))

    def seconds(self, fingerprint: str) -> float | None:
        """Median of the successful durations of this very work."""
        known = self._seconds.get(fingerprint)
        return None if known is None else _median(known)

    def memory(self, fingerprint: str, entry: Entry) -> LearnedMemory | None:
        """What to reserve for `gpu_memory = "auto"`; None: nothing learned yet."""
        own = self._peaks.get(fingerprint)
        peak = own or entry.peak
        floor = self._floor_mib.get(fingerprint, 0)
        if not peak.mib and not floor:
            return None
        peak = peak._replace(mib=max(peak.mib, self._seen_mib.get(fingerprint, 0)))
        asked = with_margin(peak.mib)
        return LearnedMemory(max(asked, floor), peak, own is None, floor > asked)


def with_margin(peak_mib: int) -> int:
    return peak_mib + max(int(peak_mib * MARGIN), MARGIN_MIB)


def _median(values: Iterable[float]) -> float:
    """Of at least one. The statistics module brings fractions and decimals with it, which every command would load."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
