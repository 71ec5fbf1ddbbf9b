"""ports.GpuProbe on NVML.

Every call into the driver is made on a daemon thread of its own and nobody waits for it without a limit: a driver that
hangs costs readings, never the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...core.readings import GpuReading
from ...ports import Inventory, Telemetry
from ..background import within
from ..host import boottime_s
from ..sampling import Sampling
from .calls import Handle, Nvml, NvmlError
from .device import Device
from .discover import has_nvidia_hardware, list_gpus, or_none

_WATCHED_S = 10.0
"""Details are read for so long after somebody has asked for them."""

T = TypeVar("T")

Sink = Callable[[tuple[GpuReading, ...]], None]


class NvmlProbe:
    """ports.GpuProbe. *sys_root*, *dev_root* and *proc* are where the kernel tells about devices and processes.

    `problems`: after `discover`, a line for each GPU that exists and could not be listed.
    """

    def __init__(
        self,
        *,
        sys_root: str = "/sys",
        dev_root: str = "/dev",
        proc: str = "/proc",
        clock_s: Callable[[], float] = boottime_s,
        discover_timeout_s: float = 60.0,
    ) -> None:
        self._sys_root = sys_root
        self._dev_root = dev_root
        self._proc = proc
        self._clock_s = clock_s
        self._discover_timeout_s = discover_timeout_s
        self._sampling: Sampling[tuple[GpuReading, ...]] | None = None
        self._telemetry: dict[str, Telemetry] = {}
        self._watched_until = -1e9
        self.problems: tuple[str, ...] = ()

    def discover(self) -> Inventory:
        hardware = has_nvidia_hardware(self._sys_root, self._dev_root)
        found = within(self._discover_timeout_s, lambda: self._inventory(hardware))
        error = f"NVML gave no answer in {self._discover_timeout_s:g} s"
        return found or Inventory(gpus=(), error=error, hardware=True)

    def start(self, uuids: Sequence[str], sink: Sink, *, period_s: float) -> None:
        self.stop()
        self._sampling = Sampling("nvml-sampler", lambda: self._reader(uuids), sink, period_s)

    def poke(self) -> None:
        if self._sampling is not None:
            self._sampling.poke()

    def stop(self) -> None:
        if self._sampling is not None:
            self._sampling.stop()
            self._sampling = None

    def telemetry(self, uuid: str) -> Telemetry | None:
        self._watched_until = self._clock_s() + _WATCHED_S
        return self._telemetry.get(uuid)

    def _reader(self, uuids: Sequence[str]) -> Callable[[], tuple[GpuReading, ...]]:
        nvml = Nvml()
        devices = [Device(uuid, nvml, self._clock_s, self._proc) for uuid in uuids]
        watched = dict(zip(uuids, devices, strict=True))

        def read() -> tuple[GpuReading, ...]:
            readings = tuple(device.read() for device in devices)
            if self._clock_s() < self._watched_until:
                self._telemetry = {uuid: device.look_closer() for uuid, device in watched.items()}
            return readings

        return read

    def _inventory(self, hardware: bool) -> Inventory:
        """Without any device a missing driver is no error: such a box has no GPUs. One that answers wrongly tells of a
        device, even where the bus is not to be seen (WSL, containers)."""
        try:
            nvml = Nvml()
            nvml.connect()
            gpus, self.problems = list_gpus(nvml)
        except NvmlError as failure:
            hardware = hardware or failure.kind != "absent"
            return Inventory(gpus=(), error=str(failure) if hardware else "", hardware=hardware)
        hardware = hardware or bool(gpus or self.problems)
        error = "" if gpus or not hardware else "; ".join(self.problems) or "NVML lists no GPU"
        return Inventory(gpus=gpus, driver=or_none(Nvml.driver, nvml) or "", error=error, hardware=hardware)


# -- what an examination asks of each card and sampling does not ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Card:
    """A physical card. None: not told."""

    index: int
    persistence: bool | None = None
    """Whether the driver stays loaded while nobody uses it."""
    compute_mode: int | None = None
    """NVML's: 0 shared, 2 nobody may compute, 3 one process at a time."""
    mig: bool = False
    instances: int = 0
    """MIG instances that exist."""


def look_at_cards(*, timeout_s: float = 10.0) -> tuple[Card, ...]:
    """All cards that answer; () where the driver does not, or not in time."""
    try:
        return within(timeout_s, _all_cards) or ()
    except NvmlError:
        return ()


def _all_cards() -> tuple[Card, ...]:
    nvml = Nvml()
    nvml.connect()
    return tuple(card for index in range(nvml.count()) if (card := _card(nvml, index)))


def _card(nvml: Nvml, index: int) -> Card | None:
    try:
        handle = nvml.by_index(index)
    except NvmlError:
        return None
    mig = bool(or_none(nvml.mig_on, handle))
    return Card(
        index,
        persistence=or_none(nvml.persistence_on, handle),
        compute_mode=or_none(nvml.compute_mode, handle),
        mig=mig,
        instances=_instances_on(nvml, handle) if mig else 0,
    )


def _instances_on(nvml: Nvml, handle: Handle) -> int:
    places = range(or_none(nvml.mig_slots, handle) or 0)
    return sum(or_none(lambda card, at=place: nvml.mig_instance(card, at), handle) is not None for place in places)
