"""A daemon thread that reads something every so often and hands it on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..core.readings import GpuReading

MIN_GAP_S = 0.05
"""Between two reads however often it is poked: the driver's own counters change several times slower."""

T = TypeVar("T")


class Sampling(Generic[T]):
    """Runs from construction to `stop`. *prepare* makes the function that reads, on the thread itself.

    A read that hangs delays the next one and nothing else: `stop` does not wait for it, and its late result is dropped.
    """

    def __init__(
        self, name: str, prepare: Callable[[], Callable[[], T]], sink: Callable[[T], None], period_s: float
    ) -> None:
        self._prepare = prepare
        self._sink = sink
        self._period_s = period_s
        self._wake = threading.Event()
        self._stop = threading.Event()
        # Reentrant: the sink may stop the sampling.
        self._delivery = threading.RLock()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def poke(self) -> None:
        """Read now, or as soon as the gap to the last read allows, instead of at the end of the period."""
        self._wake.set()

    def stop(self) -> None:
        """After this the sink is not called any more."""
        with self._delivery:
            self._stop.set()
        self._wake.set()

    def _run(self) -> None:
        read = self._prepare()
        gap_s = min(MIN_GAP_S, self._period_s)
        while not self._stop.is_set():
            self._wake.clear()
            begun_s = time.monotonic()
            self._deliver(read())
            self._wake.wait(max(0.0, begun_s + self._period_s - time.monotonic()))
            self._stop.wait(max(0.0, begun_s + gap_s - time.monotonic()))

    def _deliver(self, value: T) -> None:
        with self._delivery:
            if not self._stop.is_set():
                self._sink(value)


class SampledProbe:
    """What probes of GPUs have in common: their sampling, as `ports.GpuProbe` has it."""

    _sampling: Sampling[tuple[GpuReading, ...]] | None = None

    def start(self, uuids: Sequence[str], sink: Callable[[tuple[GpuReading, ...]], None], *, period_s: float) -> None:
        self.stop()
        self._sampling = Sampling("gpu-sampler", lambda: self._reader(uuids), sink, period_s)

    def poke(self) -> None:
        if self._sampling is not None:
            self._sampling.poke()

    def stop(self) -> None:
        if self._sampling is not None:
            self._sampling.stop()
            self._sampling = None

    def _reader(self, uuids: Sequence[str]) -> Callable[[], tuple[GpuReading, ...]]:
        """Makes the function that reads these GPUs. Called on the sampling's thread."""
        raise NotImplementedError
