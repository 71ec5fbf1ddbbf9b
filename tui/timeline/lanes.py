"""Attempts on GPUs, or on the nodes of a cluster, over time, as lanes. Pure; knows no widget."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...engine.protocol.pages import AttemptRow
from ..drawing.format import clean, cut_middle

Tone = Literal["gap", "good", "bad", "running", "stopped", "lost", "mixed"]

_TONES: Mapping[str, Tone] = {
    "": "running", "ok": "good", "cancelled": "stopped", "interrupted": "stopped", "lost": "lost",
}  # fmt: skip
_NAME_CELLS = 7
"""Of a node's label."""
_SLACK_S = 0.05
"""Starts and ends are read from different clocks."""


def tone_of(row: AttemptRow) -> Tone:
    """What an attempt counts as: lasting, good, bad, stopped by somebody, or lost."""
    return _TONES.get(row.kind if row.end is not None else "", "bad")


@dataclass(slots=True)
class Lane:
    """A GPU's slot, a CPU slot, or one of a node: attempts one after the other."""

    label: str
    gpu: int | None
    """None: the CPU, or a node of a cluster."""
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
    """GPUs in order, those of *gpus* at least, then nodes by name, then the CPU. What overlaps in one place gets lanes
    of its own there."""
    found: dict[_Place, list[Lane]] = {gpu: [Lane(f"GPU {gpu}", gpu)] for gpu in sorted(gpus)}
    for row in sorted(attempts, key=lambda row: row.start):
        for place in row.nodes or row.gpus or (None,):
            slots = found.setdefault(place, [])
            lane = next((lane for lane in slots if not lane.ends or lane.ends[-1] <= row.start + _SLACK_S), None)
            if lane is None:
                lane = Lane(_label(place, len(slots)), place if isinstance(place, int) else None)
                slots.append(lane)
            lane.add(row)
    return [lane for place in sorted(found, key=_order) for lane in found[place]]


_Place = int | str | None
"""A GPU by its index, a node by its name; None: the CPU."""


def _order(place: _Place) -> tuple[int, tuple[int, str], int]:
    if place is None:
        return 2, (0, ""), 0
    return (0, (0, ""), place) if isinstance(place, int) else (1, (len(place), place), 0)


def _label(place: _Place, slot: int) -> str:
    name = _name(place)
    return name if not slot else f"{name[:3] if place is None else ''} ·{slot + 1}".rjust(len(name))


def _name(place: _Place) -> str:
    if isinstance(place, str):
        return cut_middle(clean(place), _NAME_CELLS)
    return "CPU" if place is None else f"GPU {place}"
