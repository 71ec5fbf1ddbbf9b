"""What attempts used of their GPUs, summed up from the readings while they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..core.deck import Task
from ..core.devices import Gpu
from ..core.inputs import GpuReading
from ..core.phases import Attempt, Running

IDLE_PERCENT = 1
"""A GPU is idle at this utilisation or less."""


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


@dataclass(slots=True)
class _Idle:
    busy_at: float
    """When one of its GPUs computed last."""
    said: bool = False


class IdleGpus:
    """Finds attempts whose GPUs do nothing."""

    def __init__(self) -> None:
        self._idle: dict[str, _Idle] = {}

    def take(self, readings: Iterable[GpuReading], active: Mapping[str, Task], now: float) -> list[tuple[str, float]]:
        """Tokens of attempts with an `idle_gpu` rule all of whose GPUs have been idle for that long, with the rule's
        seconds; each once until it computes again. *now*: CLOCK_BOOTTIME. A GPU that tells nothing is not idle."""
        utils = {reading.uuid: reading.util_percent for reading in readings if not reading.lost}
        found: list[tuple[str, float]] = []
        kept: dict[str, _Idle] = {}
        for token, task in active.items():
            watch = task.spec.extras.watch
            attempt = task.attempt()
            if watch is None or watch.idle_gpu_s is None or attempt is None or not isinstance(task.phase, Running):
                continue
            state = kept[token] = self._idle.get(token) or _Idle(attempt.at)
            if not _all_idle(attempt, utils):
                state.busy_at, state.said = now, False
            elif now - state.busy_at >= watch.idle_gpu_s and not state.said:
                state.said = True
                found.append((token, watch.idle_gpu_s))
        self._idle = kept
        return found


def _all_idle(attempt: Attempt, utils: Mapping[str, int | None]) -> bool:
    known = [utils.get(uuid) for uuid in attempt.gpus]
    return bool(known) and all(util is not None and util <= IDLE_PERCENT for util in known)
