"""What attempts used of their GPUs, summed up from the readings while they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .core.devices import Gpu
from .core.inputs import GpuReading


@dataclass(slots=True)
class Used:
    """One attempt's figures, over all its GPUs; None: never read."""

    peak_mib: int | None = None
    peak_util_percent: float | None = None
    _mib: float = 0.0
    _mib_count: int = 0
    _util: float = 0.0
    _util_count: int = 0

    @property
    def mean_mib(self) -> float | None:
        return self._mib / self._mib_count if self._mib_count else None

    @property
    def mean_util_percent(self) -> float | None:
        return self._util / self._util_count if self._util_count else None

    def add(self, used_mib: int | None, util_percent: int | None) -> None:
        if used_mib is not None:
            self.peak_mib = max(self.peak_mib or 0, used_mib)
            self._mib += used_mib
            self._mib_count += 1
        if util_percent is not None:
            self.peak_util_percent = max(self.peak_util_percent or 0.0, util_percent)
            self._util += util_percent
            self._util_count += 1


class Usage:
    """Collects by token, and forgets an attempt when it is asked for the last time."""

    def __init__(self) -> None:
        self._used: dict[str, Used] = {}

    def take(self, readings: Iterable[GpuReading], gpus: Mapping[str, Gpu]) -> None:
        """Add one round of readings. Utilisation is the card's: attempts that share one share it."""
        for reading in readings:
            gpu = gpus.get(reading.uuid)
            if gpu is None or reading.lost:
                continue
            for token, attempt in gpu.holders.items():
                if reading.at >= attempt.at:
                    used = self._used.setdefault(token, Used())
                    used.add(attempt.measured.get(reading.uuid), reading.util_percent)

    def peek(self, token: str) -> Used:
        return self._used.get(token, Used())

    def finish(self, token: str) -> Used:
        return self._used.pop(token, Used())
