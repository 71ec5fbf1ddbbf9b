"""attempt-N.gpu.json: what an attempt used of its GPUs over time, in a bounded number of points, and what a later
engine needs to go on with it."""

from __future__ import annotations

import msgspec

MOST_POINTS = 512
"""Points that are full are merged two to one, so that a long attempt has 256 to 512."""


class GpuHistory(msgspec.Struct):
    """One attempt's. Lists have an entry for each point, null where nothing was told."""

    at_s: list[float] = []
    """When a point's last reading was, in seconds from the attempt's start."""
    util_percent: list[float | None] = []
    """Mean over its GPUs and the point's readings."""
    memory_mib: list[int | None] = []
    """The most on one of its GPUs."""
    power_w: list[float | None] = []
    """Mean of the sum over its GPUs; of a shared one its share."""
    readings_each: int = 1
    """How many readings a point stands for."""
    peak_mib: int | None = None
    peak_util_percent: float | None = None
    mib_sum: float = 0.0
    mib_count: int = 0
    util_sum: float = 0.0
    util_count: int = 0
    drawn: dict[str, tuple[float, float]] = {}
    """Energy by UUID: joules, and the seconds in which they were used."""
    counters: dict[str, tuple[float, float]] = {}
    """What the driver's counter said last, by UUID: CLOCK_BOOTTIME, joules."""


class Point(msgspec.Struct, frozen=True):
    """One round of readings of an attempt's GPUs."""

    at_s: float
    util_percent: float | None = None
    memory_mib: int | None = None
    power_w: float | None = None


class Curve:
    """Adds points to a history, and keeps it small."""

    def __init__(self, history: GpuHistory) -> None:
        self._history = history
        self._open: list[Point] = []

    def add(self, point: Point) -> None:
        self._open.append(point)
        if len(self._open) >= self._history.readings_each:
            self._put(_merged(self._open))
            self._open = []

    def _put(self, point: Point) -> None:
        kept = self._history
        kept.at_s.append(point.at_s)
        kept.util_percent.append(point.util_percent)
        kept.memory_mib.append(point.memory_mib)
        kept.power_w.append(point.power_w)
        if len(kept.at_s) >= MOST_POINTS:
            self._halve()

    def _halve(self) -> None:
        kept = self._history
        points = points_of(kept)
        merged = [_merged(points[place : place + 2]) for place in range(0, len(points), 2)]
        kept.at_s = [point.at_s for point in merged]
        kept.util_percent = [point.util_percent for point in merged]
        kept.memory_mib = [point.memory_mib for point in merged]
        kept.power_w = [point.power_w for point in merged]
        kept.readings_each *= 2


def points_of(history: GpuHistory) -> list[Point]:
    columns = (history.at_s, history.util_percent, history.memory_mib, history.power_w)
    return [Point(*values) for values in zip(*columns, strict=False)]


def encode_history(history: GpuHistory) -> bytes:
    return msgspec.json.encode(history) + b"\n"


def read_history(path: str) -> GpuHistory | None:
    """None: it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=GpuHistory)
    except (OSError, msgspec.DecodeError):
        return None


def _merged(points: list[Point]) -> Point:
    """Means, but the most of the memory: its peak is what a card must have room for."""
    memory = [point.memory_mib for point in points if point.memory_mib is not None]
    return Point(
        points[-1].at_s,
        _mean([point.util_percent for point in points if point.util_percent is not None]),
        max(memory, default=None),
        _mean([point.power_w for point in points if point.power_w is not None]),
    )


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None
