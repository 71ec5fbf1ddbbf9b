"""What GPUs read over the last minutes, once a second; gaps where there was no reading."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from ...engine.protocol.wire import GpuRow

KEPT_S = 600


class Series:
    """One number over time, by second. What was told last holds until something else is told: the engine is silent
    about what does not change."""

    def __init__(self, kept_s: int = KEPT_S) -> None:
        self._values: deque[float | None] = deque(maxlen=kept_s)
        self._second: int | None = None

    def add(self, at: float, value: float | None) -> bool:
        """*at*: seconds of any clock that runs on. None: a gap. Returns whether what `last` gives has changed."""
        second = int(at)
        if self._second is None or not self._values:
            self._values.append(value)
        elif second <= self._second:
            if self._values[-1] == value:
                return False
            self._values[-1] = value
            return True
        else:
            held = min(second - self._second - 1, self._values.maxlen or 0)
            self._values.extend([self._values[-1]] * held)
            self._values.append(value)
        self._second = second
        return True

    def last(self, count: int) -> Sequence[float | None]:
        """The newest values, oldest first; fewer where there are not so many."""
        return list(islice(self._values, max(0, len(self._values) - count), None))


class GpuHistory:
    """Utilisation and used memory in percent, by the GPU's UUID."""

    def __init__(self, kept_s: int = KEPT_S) -> None:
        self._kept_s = kept_s
        self._util: dict[str, Series] = {}
        self._memory: dict[str, Series] = {}

    def take(self, gpus: Sequence[GpuRow], at: float) -> None:
        """GPUs that are gone are forgotten; one that is lost or whose readings are stale has a gap."""
        uuids = {gpu.uuid for gpu in gpus}
        for series in (self._util, self._memory):
            for uuid in series.keys() - uuids:
                del series[uuid]
        for gpu in gpus:
            silent = bool(gpu.lost) or gpu.stale_since is not None
            self._add(self._util, gpu.uuid, at, None if silent else gpu.util_percent)
            self._add(self._memory, gpu.uuid, at, None if silent else memory_percent(gpu))

    def interrupt(self, at: float) -> None:
        """Nobody tells anything: a gap from now on."""
        for series in (*self._util.values(), *self._memory.values()):
            series.add(at, None)

    def util(self, uuid: str, count: int) -> Sequence[float | None]:
        return self._last(self._util, uuid, count)

    def memory(self, uuid: str, count: int) -> Sequence[float | None]:
        return self._last(self._memory, uuid, count)

    def _add(self, into: dict[str, Series], uuid: str, at: float, value: float | None) -> None:
        series = into.get(uuid)
        if series is None:
            series = into[uuid] = Series(self._kept_s)
        series.add(at, value)

    def _last(self, of: dict[str, Series], uuid: str, count: int) -> Sequence[float | None]:
        series = of.get(uuid)
        return () if series is None else series.last(count)


def memory_percent(gpu: GpuRow) -> float | None:
    if gpu.used_mib is None or not gpu.total_mib:
        return None
    return 100.0 * gpu.used_mib / gpu.total_mib
