"""attempt-N.gpu.json: what an attempt used of its GPUs over time, in a bounded number of points, and what a later
engine needs to go on with it."""

from __future__ import annotations

from collections.abc import Sequence

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

    def points(self) -> list[Point]:
        columns = (self.at_s, self.util_percent, self.memory_mib, self.power_w)
        return [Point(*values) for values in zip(*columns, strict=False)]


class Point(msgspec.Struct, frozen=True):
    """One round of readings of an attempt's GPUs."""

    at_s: float
    util_percent: float | None = None
    memory_mib: int | None = None
    power_w: float | None = None


class Used:
    """One attempt's figures, over all its GPUs, as they come in; None: never read."""

    def __init__(self, history: GpuHistory | None = None) -> None:
        self.history = history or GpuHistory()
        self._round: list[tuple[int | None, int | None, float | None]] = []
        """Of each card at the same time: utilisation in percent, memory in MiB, power in watts."""
        self._open: list[Point] = []
        """What is not a whole point of the history yet."""

    @property
    def peak_mib(self) -> int | None:
        return self.history.peak_mib

    @property
    def peak_util_percent(self) -> float | None:
        return self.history.peak_util_percent

    @property
    def mean_mib(self) -> float | None:
        kept = self.history
        return kept.mib_sum / kept.mib_count if kept.mib_count else None

    @property
    def mean_util_percent(self) -> float | None:
        kept = self.history
        return kept.util_sum / kept.util_count if kept.util_count else None

    def mean_power_w(self, cards: int) -> float | None:
        """Of its *cards* together; None where one of them does not tell."""
        drawn = [(joules, seconds) for joules, seconds in self.history.drawn.values() if seconds > 0]
        if not cards or len(drawn) < cards:
            return None
        return sum(joules / seconds for joules, seconds in drawn)

    def energy_wh(self, cards: int, duration_s: float) -> float | None:
        """Of the whole attempt: times without readings, such as before the first, count with the mean power."""
        power_w = self.mean_power_w(cards)
        return None if power_w is None else power_w * duration_s / 3600

    def add(self, used_mib: int | None, util_percent: int | None, power_w: float | None) -> None:
        """One of its cards was read."""
        kept = self.history
        if used_mib is not None:
            kept.peak_mib = max(kept.peak_mib or 0, used_mib)
            kept.mib_sum += used_mib
            kept.mib_count += 1
        if util_percent is not None:
            kept.peak_util_percent = max(kept.peak_util_percent or 0.0, util_percent)
            kept.util_sum += util_percent
            kept.util_count += 1
        self._round.append((util_percent, used_mib, power_w))

    def draw(self, uuid: str, joules: float, seconds: float) -> None:
        before_j, before_s = self.history.drawn.get(uuid, (0.0, 0.0))
        self.history.drawn[uuid] = (round(before_j + joules, 3), round(before_s + seconds, 3))

    def close_round(self, at_s: float) -> None:
        """All of its cards were read, *at_s* seconds after it began."""
        utils = [util for util, _, _ in self._round if util is not None]
        memory = [mib for _, mib, _ in self._round if mib is not None]
        watts = [power_w for _, _, power_w in self._round if power_w is not None]
        self._round.clear()
        power_w = round(sum(watts), 1) if watts else None
        self.mark(Point(round(at_s, 1), _mean(utils), max(memory, default=None), power_w))

    def mark(self, point: Point) -> None:
        """Add a point, and keep the history small."""
        self._open.append(point)
        if len(self._open) >= self.history.readings_each:
            self._put(_merged(self._open))
            self._open = []

    def _put(self, point: Point) -> None:
        kept = self.history
        kept.at_s.append(point.at_s)
        kept.util_percent.append(point.util_percent)
        kept.memory_mib.append(point.memory_mib)
        kept.power_w.append(point.power_w)
        if len(kept.at_s) >= MOST_POINTS:
            self._halve()

    def _halve(self) -> None:
        kept, points = self.history, self.history.points()
        merged = [_merged(points[place : place + 2]) for place in range(0, len(points), 2)]
        kept.at_s = [point.at_s for point in merged]
        kept.util_percent = [point.util_percent for point in merged]
        kept.memory_mib = [point.memory_mib for point in merged]
        kept.power_w = [point.power_w for point in merged]
        kept.readings_each *= 2

    def behind(self, earlier: GpuHistory) -> Used:
        """The same with what an earlier engine had read before."""
        joined, mine = Used(earlier), self.history
        earlier.peak_mib = max((mib for mib in (earlier.peak_mib, mine.peak_mib) if mib is not None), default=None)
        peaks = [percent for percent in (earlier.peak_util_percent, mine.peak_util_percent) if percent is not None]
        earlier.peak_util_percent = max(peaks, default=None)
        earlier.mib_sum, earlier.mib_count = earlier.mib_sum + mine.mib_sum, earlier.mib_count + mine.mib_count
        earlier.util_sum, earlier.util_count = earlier.util_sum + mine.util_sum, earlier.util_count + mine.util_count
        for uuid, (joules, seconds) in mine.drawn.items():
            joined.draw(uuid, joules, seconds)
        earlier.counters |= mine.counters
        for point in mine.points():
            joined.mark(point)
        return joined


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


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None
