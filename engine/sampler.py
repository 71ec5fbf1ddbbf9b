"""Brings readings of GPUs and of the host's memory into the loop."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .core.inputs import DevicesSampled
from .core.readings import GpuReading
from .ports import GpuProbe, Sink

PERIOD_S = 1.0
HOST_PERIOD_S = 2.0


def sample_once(probe: GpuProbe, uuids: Sequence[str], *, timeout_s: float = 5.0) -> tuple[GpuReading, ...]:
    """One reading of these GPUs; () when the driver gives none in time. Leaves the probe stopped."""
    arrived: queue.SimpleQueue[tuple[GpuReading, ...]] = queue.SimpleQueue()
    probe.start(uuids, arrived.put, period_s=3600.0)
    try:
        return arrived.get(timeout=timeout_s)
    except queue.Empty:
        return ()
    finally:
        probe.stop()


class Sampler:
    """Samples while it runs; attributes processes to our attempts by pid."""

    def __init__(
        self,
        probe: GpuProbe,
        uuids: Sequence[str],
        *,
        members: Callable[[], Mapping[int, str]],
        mem_available_mib: Callable[[], int],
        post: Sink,
        seen: Callable[[tuple[GpuReading, ...]], None],
        host_too: bool,
        claimed: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """*claimed*: which GPUs another deck has, and who (by UUID)."""
        self._loop = asyncio.get_running_loop()
        self._probe = probe
        self._uuids = tuple(uuids)
        self._members = members
        self._mem_available_mib = mem_available_mib
        self._post = post
        self._seen = seen
        self._host_too = host_too
        self._claimed = claimed
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._host_too:
            self._post(DevicesSampled((), self._mem_available_mib()))
        if self._uuids:
            self._probe.start(self._uuids, self._from_thread, period_s=PERIOD_S)
        elif self._host_too:
            self._host()

    def look_at_host(self) -> None:
        """From now on the host's memory is read, too."""
        if self._host_too:
            return
        self._host_too = True
        if self._uuids:
            self._post(DevicesSampled((), self._mem_available_mib()))
        else:
            self._host()

    def stop(self) -> None:
        if self._uuids:
            self._probe.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _host(self) -> None:
        self._post(DevicesSampled((), self._mem_available_mib()))
        self._timer = self._loop.call_later(HOST_PERIOD_S, self._host)

    def _from_thread(self, readings: tuple[GpuReading, ...]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrive, readings)

    def _arrive(self, readings: tuple[GpuReading, ...]) -> None:
        busy = any(reading.processes for reading in readings)
        members: Mapping[int, str] = self._members() if busy else {}
        attributed = tuple(_attribute(reading, members) for reading in readings)
        available_mib = self._mem_available_mib() if self._host_too else None
        self._post(DevicesSampled(attributed, available_mib, self._claimed()))
        self._seen(attributed)


def _attribute(reading: GpuReading, members: Mapping[int, str]) -> GpuReading:
    if not reading.processes:
        return reading
    processes = tuple(
        replace(process, token=members[process.pid]) if process.pid in members else process
        for process in reading.processes
    )
    return replace(reading, processes=processes)
