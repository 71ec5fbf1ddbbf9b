"""What earlier attempts teach: how long a task takes and how much GPU memory, by fingerprint first, then by entry."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from .devices import RELEARN

KEPT = 31
"""Durations kept for an entry."""
KEPT_OF_ONE = 5
"""Durations kept for one fingerprint."""
MUCH_LONGER = 1.25
"""By so much the longest duration of an entry has to grow before its tasks get other places."""
OOM_RAISE = 1.5
"""After an out-of-memory end the reservation grows by this factor."""


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
    peak_mib: int = 0
    rekeyed: int = 0
    """Tasks before this place have been given their new place in the queue."""
    fast_failures: int = 0
    """Failures within a minute in a row, over all its tasks."""
    past_minute: dict[str, float] = field(default_factory=dict[str, float])
    """GPUs on which one of its attempts got past a minute, and when last."""

    def learn(self, duration_s: float) -> bool:
        """Take a successful duration in. True when it is the entry's first, or much longer than what those of its tasks
        that wait have their places by."""
        self.durations.append(duration_s)
        self.longest_s = max(self.longest_s or 0.0, duration_s)
        self.typical_s = median(self.durations)
        if self.placed_s is not None and self.longest_s <= self.placed_s * MUCH_LONGER:
            return False
        self.placed_s = self.longest_s
        return True


class Learned:
    """Durations and memory peaks by fingerprint."""

    __slots__ = ("_floor_mib", "_peak_mib", "_seconds")

    def __init__(self) -> None:
        self._seconds: dict[str, float | list[float] | None] = {}
        self._peak_mib: dict[str, int] = {}
        self._floor_mib: dict[str, int] = {}

    def expect(self, fingerprints: Iterable[str]) -> None:
        """Make room for these at once: a table that grows under way holds its owner up for milliseconds."""
        for fingerprint in fingerprints:
            self._seconds.setdefault(fingerprint)

    def success(self, fingerprint: str, duration_s: float, peak_mib: int) -> None:
        known = self._seconds.get(fingerprint)
        if known is None:
            self._seconds[fingerprint] = duration_s
        elif isinstance(known, list):
            self._seconds[fingerprint] = [*known[1 - KEPT_OF_ONE :], duration_s]
        else:
            self._seconds[fingerprint] = [known, duration_s]
        if peak_mib:
            self._peak_mib[fingerprint] = max(peak_mib, self._peak_mib.get(fingerprint, 0))

    def out_of_memory(self, fingerprint: str, reserved_mib: int) -> None:
        """An attempt ended out of memory: its peak teaches nothing, but what it had reserved was too little."""
        if reserved_mib:
            floor = int(reserved_mib * OOM_RAISE)
            self._floor_mib[fingerprint] = max(floor, self._floor_mib.get(fingerprint, 0))

    def seconds(self, fingerprint: str) -> float | None:
        """Median of the successful durations of this very work."""
        known = self._seconds.get(fingerprint)
        return median(known) if isinstance(known, list) else known

    def memory_mib(self, fingerprint: str, entry: Entry) -> int | None:
        """What to reserve for `gpu_memory = "auto"`, margin included; None: nothing learned yet."""
        peak = self._peak_mib.get(fingerprint) or entry.peak_mib
        floor = self._floor_mib.get(fingerprint, 0)
        if not peak and not floor:
            return None
        return max(int(peak * RELEARN), floor)
