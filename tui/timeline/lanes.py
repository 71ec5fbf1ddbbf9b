"""Attempts on GPUs over time, as lanes. Pure; knows no widget."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...engine.protocol.pages import AttemptRow

Tone = Literal["gap", "good", "bad", "running", "stopped", "lost", "mixed"]

_TONES: Mapping[str, Tone] = {
    "": "running", "ok": "good", "cancelled": "stopped", "interrupted": "stopped", "lost": "lost",
}  # fmt: skip
_SLACK_S = 0.05
"""Starts and ends are read from different clocks."""


def tone_of(row: AttemptRow) -> Tone:
    """What an attempt counts as: lasting, good, bad, stopped by somebody, or lost."""
    return _TONES.get(row.kind if row.end is not None else "", "bad")


@dataclass(slots=True)
class Lane:
    """A GPU's slot, or a CPU slot: attempts one after the other."""

    label: str
    gpu: int | None
    """None: the CPU."""
    rows: list[AttemptRow] = field(default_factory=list[AttemptRow])
    starts: list[float] = field(default_factory=list[float])
    ends: list[float] = field(default_factory=list[float])
    """Infinite for one that lasts."""
    busy: list[float] = field(default_factory=lambda: [0.0])
    """Seconds of the first so many attempts together; one that lasts counts as none."""
    failed: list[int] = field(default_factory=lambda: [0])
    """How many of the first so many failed or were lost."""

    def add(self, row: AttemptRow) -> None:
        """An attempt that starts after all others here."""
        start = max(row.start, self.ends[-1]) if self.ends else row.start
        end = math.inf if row.end is None else max(start, row.end)
        self.rows.append(row)
        self.starts.append(start)
        self.ends.append(end)
        self.failed.append(self.failed[-1] + (tone_of(row) in ("bad", "lost")))
        self.busy.append(self.busy[-1] + (0.0 if row.end is None else end - start))

    def at(self, wall_s: float) -> int:
        """The attempt at a time, or the nearest before it, or the first; -1 in an empty lane."""
        return max(0, bisect_right(self.starts, wall_s) - 1) if self.rows else -1

    def share(self, start: float, end: float, now_s: float) -> float | None:
        """How much of a stretch of time it was busy, up to now; None: it is all in the future."""
        end = min(end, now_s)
        if end <= start:
            return None
        first, behind = bisect_right(self.ends, start), bisect_left(self.starts, end)
        if behind <= first:
            return 0.0
        inside = self.busy[behind] - self.busy[first]
        inside -= max(0.0, start - self.starts[first]) if math.isfinite(self.ends[first]) else 0.0
        last = self.ends[behind - 1]
        if math.isinf(last):
            inside += end - max(start, self.starts[behind - 1])
        else:
            inside -= max(0.0, last - end)
        return min(1.0, max(0.0, inside / (end - start)))


def lanes_of(attempts: Iterable[AttemptRow], gpus: Sequence[int]) -> list[Lane]:
    """GPUs in order, those of *gpus* at least, then the CPU. What overlaps on one GPU gets lanes of its own there."""
    found: dict[int | None, list[Lane]] = {gpu: [Lane(f"GPU {gpu}", gpu)] for gpu in sorted(gpus)}
    for row in sorted(attempts, key=lambda row: row.start):
        for gpu in row.gpus or (None,):
            slots = found.setdefault(gpu, [])
            lane = next((lane for lane in slots if not lane.ends or lane.ends[-1] <= row.start + _SLACK_S), None)
            if lane is None:
                lane = Lane(_label(gpu, len(slots)), gpu)
                slots.append(lane)
            lane.add(row)
    cpu = found.pop(None, [])
    return [lane for gpu in sorted(found, key=lambda gpu: -1 if gpu is None else gpu) for lane in found[gpu]] + cpu


def _label(gpu: int | None, slot: int) -> str:
    name = "CPU" if gpu is None else f"GPU {gpu}"
    return name if not slot else f"{name[:3] if gpu is None else ''} ·{slot + 1}".rjust(len(name))
