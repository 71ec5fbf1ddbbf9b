"""What attempts used of their GPUs, summed up from the readings while they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..core.devices import Gpu
from ..core.phases import Attempt
from ..core.readings import GpuReading
from ..logs.gpu_history import Curve, GpuHistory, Point, points_of

GAP_S = 15.0
"""Power is not carried over a longer time without readings."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a card used from *since* on (CLOCK_BOOTTIME) for *seconds*."""

    since: float
    seconds: float
    joules: float

    def of(self, begun: float, holders: int) -> tuple[float, float]:
        """Joules and seconds that count for an attempt that began at *begun*: holders share the card equally."""
        late_s = min(max(0.0, begun - self.since), self.seconds)
        lasted_s = self.seconds - late_s
        return self.joules / max(1, holders) * (lasted_s / self.seconds), lasted_s


class Meter:
    """Of one card."""

    def __init__(self) -> None:
        self.first: GpuReading | None = None
        self._last: GpuReading | None = None

    def read(self, reading: GpuReading) -> Drawn | None:
        """What was used since the reading before; None: nobody knows."""
        last, self._last = self._last, reading
        self.first = self.first or reading
        if last is None or reading.at <= last.at:
            return None
        seconds = reading.at - last.at
        joules = between(last.energy_j, reading.energy_j)
        if joules is None and seconds <= GAP_S:
            told = [watts for watts in (last.power_w, reading.power_w) if watts is not None]
            joules = sum(told) / len(told) * seconds if told else None
        return None if joules is None else Drawn(last.at, seconds, joules)


def between(earlier_j: float | None, later_j: float | None) -> float | None:
    """None: there is no counter, or it began anew with the driver."""
    if earlier_j is None or later_j is None or later_j < earlier_j:
        return None
    return later_j - earlier_j


class Used:
    """One attempt's figures, over all its GPUs; None: never read."""

    def __init__(self, history: GpuHistory | None = None) -> None:
        self.history = history or GpuHistory()
        self._curve = Curve(self.history)

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

    def add(self, used_mib: int | None, util_percent: int | None) -> None:
        kept = self.history
        if used_mib is not None:
            kept.peak_mib = max(kept.peak_mib or 0, used_mib)
            kept.mib_sum += used_mib
            kept.mib_count += 1
        if util_percent is not None:
            kept.peak_util_percent = max(kept.peak_util_percent or 0.0, util_percent)
            kept.util_sum += util_percent
            kept.util_count += 1

    def draw(self, uuid: str, joules: float, seconds: float) -> None:
        before_j, before_s = self.history.drawn.get(uuid, (0.0, 0.0))
        self.history.drawn[uuid] = (round(before_j + joules, 3), round(before_s + seconds, 3))

    def mark(self, point: Point) -> None:
        """A round of readings is complete."""
        self._curve.add(point)

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
        for point in points_of(mine):
            joined.mark(point)
        return joined


@dataclass(slots=True)
class _Round:
    """What the cards of one attempt say at one time."""

    at_s: float
    utils: list[int] = field(default_factory=list[int])
    memory: list[int] = field(default_factory=list[int])
    watts: list[float] = field(default_factory=list[float])

    @property
    def point(self) -> Point:
        util = round(sum(self.utils) / len(self.utils), 1) if self.utils else None
        watts = round(sum(self.watts), 1) if self.watts else None
        return Point(round(self.at_s, 1), util, max(self.memory, default=None), watts)


class Usage:
    """Collects by token, and forgets an attempt when it is asked for the last time."""

    def __init__(self) -> None:
        self._used: dict[str, Used] = {}
        self._meters: dict[str, Meter] = {}
        self._elsewhere: dict[str, dict[str, Meter]] = {}
        """Of cards on other machines, by token."""

    def take(self, readings: Iterable[GpuReading], gpus: Mapping[str, Gpu]) -> None:
        """Add one round of readings. Utilisation is the card's: attempts that share one share it. Energy of a shared
        card is divided equally among those that hold it."""
        rounds: dict[str, _Round] = {}
        for reading in readings:
            gpu = gpus.get(reading.uuid)
            if gpu is None or reading.lost:
                continue
            drawn = self._meters.setdefault(reading.uuid, Meter()).read(reading)
            for token, attempt in gpu.holders.items():
                if reading.at >= attempt.at:
                    told = rounds.setdefault(token, _Round(reading.at - attempt.at))
                    self._add(token, attempt, reading, drawn, len(gpu.holders), told)
        for token, told in rounds.items():
            self._used[token].mark(told.point)

    def _add(
        self, token: str, attempt: Attempt, reading: GpuReading, drawn: Drawn | None, holders: int, told: _Round
    ) -> None:
        used = self._used.setdefault(token, Used())
        used_mib = attempt.measured.get(reading.uuid)
        used.add(used_mib, reading.util_percent)
        if drawn is not None:
            used.draw(reading.uuid, *drawn.of(attempt.at, holders))
        if reading.energy_j is not None:
            used.history.counters[reading.uuid] = (reading.at, reading.energy_j)
        if reading.util_percent is not None:
            told.utils.append(reading.util_percent)
        if used_mib is not None:
            told.memory.append(used_mib)
        if reading.power_w is not None:
            told.watts.append(reading.power_w / holders)

    def tell(self, token: str, at_s: float, readings: Iterable[GpuReading]) -> None:
        """Add one round of readings of cards that an attempt has to itself on another machine, where their `uuid` and
        clock mean something; *at_s*: since it began."""
        used, told = self._used.setdefault(token, Used()), _Round(at_s)
        for reading in readings:
            used.add(reading.used_mib, reading.util_percent)
            drawn = self._elsewhere.setdefault(token, {}).setdefault(reading.uuid, Meter()).read(reading)
            if drawn is not None:
                used.draw(reading.uuid, drawn.joules, drawn.seconds)
            if reading.util_percent is not None:
                told.utils.append(reading.util_percent)
            if reading.used_mib is not None:
                told.memory.append(reading.used_mib)
            if reading.power_w is not None:
                told.watts.append(reading.power_w)
        used.mark(told.point)

    def go_on(self, token: str, earlier: GpuHistory, gpus: Mapping[str, Gpu]) -> None:
        """An earlier engine has read this of an attempt that lasts. What its cards used in between is known where the
        driver counts."""
        for uuid, (at, energy_j) in earlier.counters.items():
            meter, gpu = self._meters.get(uuid), gpus.get(uuid)
            first = meter.first if meter is not None else None
            joules = between(energy_j, first.energy_j) if first is not None else None
            if first is not None and joules is not None and first.at > at:
                before_j, before_s = earlier.drawn.get(uuid, (0.0, 0.0))
                share = joules / max(1, len(gpu.holders) if gpu is not None else 1)
                earlier.drawn[uuid] = (before_j + share, before_s + first.at - at)
        self._used[token] = self.peek(token).behind(earlier)

    def histories(self) -> Mapping[str, GpuHistory]:
        """By token, of those that were read at least twice."""
        return {token: used.history for token, used in self._used.items() if len(used.history.at_s) > 1}

    def peek(self, token: str) -> Used:
        return self._used.get(token) or Used()

    def finish(self, token: str) -> Used:
        self._elsewhere.pop(token, None)
        return self._used.pop(token, None) or Used()
