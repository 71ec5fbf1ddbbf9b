"""Energy that GPUs used between two readings: by the driver's own counter, else by the power that they told."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.readings import GpuReading

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
