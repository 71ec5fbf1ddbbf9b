"""ports.GpuProbe on NVML.

Every call into the driver is made on a daemon thread of its own and nobody waits for it without a limit: a driver that
hangs costs readings, never the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

from ...core.readings import GpuReading
from ...ports import GpuInfo, Inventory, Telemetry
from ..background import within
from ..host import boottime_s, has_nvidia_hardware
from ..sampling import SampledProbe
from .calls import Handle, Nvml, NvmlError
from .device import Device

_WATCHED_S = 10.0
"""Details are read for so long after somebody has asked for them."""

T = TypeVar("T")


class NvmlProbe(SampledProbe):
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
        self._telemetry: dict[str, Telemetry] = {}
        self._watched_until = -1e9
        self.problems: tuple[str, ...] = ()

    def discover(self) -> Inventory:
        hardware = has_nvidia_hardware(self._sys_root, self._dev_root)
        try:
            return within(self._discover_timeout_s, lambda: self._inventory(hardware))
        except TimeoutError as error:
            return Inventory(gpus=(), error=f"NVML gave {error}", hardware=True)

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


# -- the GPUs of the box, as NVML lists them: cards, MIG instances, and which cards are near each other -------------


_NVLINK = 100
_FARTHEST = 60
"""Above the largest of NVML's topology levels, so that every level gives a positive closeness."""


def list_gpus(nvml: Nvml) -> tuple[tuple[GpuInfo, ...], tuple[str, ...]]:
    """All GPUs in NVML's order, and one line for each that could not be listed: "GPU 3: GPU is lost". Raises NvmlError
    where none can be asked."""
    cards: list[tuple[GpuInfo, Handle]] = []
    instances: list[GpuInfo] = []
    problems: list[str] = []
    count = nvml.count()
    for index in range(count):
        try:
            handle = nvml.by_index(index)
            if or_none(nvml.mig_on, handle):
                instances += _instances(nvml, handle, count + len(instances))
            else:
                cards.append((_describe(nvml, handle, index), handle))
        except NvmlError as failure:
            problems.append(f"GPU {index}: {failure}")
    links = _links(nvml, {info.uuid: handle for info, handle in cards})
    gpus = [replace(info, links=links.get(info.uuid)) for info, _ in cards]
    return (*gpus, *instances), tuple(problems)


def _describe(nvml: Nvml, handle: Handle, index: int, *, mig: bool = False) -> GpuInfo:
    memory = or_none(nvml.memory, handle)
    return GpuInfo(
        uuid=nvml.uuid(handle),
        index=index,
        name=or_none(nvml.name, handle) or "NVIDIA GPU",
        total_mib=memory.nominal_mib if memory else None,
        mig=mig,
        slowdown_c=or_none(nvml.slowdown_c, handle),
        power_limit_w=or_none(nvml.power_limit_w, handle),
    )


def _instances(nvml: Nvml, card: Handle, first_index: int) -> list[GpuInfo]:
    """The instances of a card in MIG mode. They are numbered after all cards, so that a number means one of them."""
    found: list[GpuInfo] = []
    for place in range(or_none(nvml.mig_slots, card) or 0):
        with suppress(NvmlError):
            handle = nvml.mig_instance(card, place)
            found.append(_describe(nvml, handle, first_index + len(found), mig=True))
    return found


def _links(nvml: Nvml, handles: Mapping[str, Handle]) -> dict[str, dict[str, int]]:
    """Closeness by pair, both ways. Empty where the topology is not told."""
    links: dict[str, dict[str, int]] = {}
    for one, other in combinations(handles, 2):
        closeness = _closeness(nvml, handles[one], handles[other])
        if closeness is not None:
            links.setdefault(one, {})[other] = closeness
            links.setdefault(other, {})[one] = closeness
    return links


def _closeness(nvml: Nvml, one: Handle, other: Handle) -> int | None:
    distance = or_none(lambda handle: nvml.distance(handle, other), one)
    near = 0 if distance is None else _FARTHEST - distance
    if or_none(lambda handle: nvml.nvlinked(handle, other), one):
        return _NVLINK + near
    return None if distance is None else near


def or_none(call: Callable[[Handle], T], handle: Handle) -> T | None:
    """A detail that the driver does not tell is not known."""
    try:
        return call(handle)
    except NvmlError:
        return None


# -- without the driver -----------------------------------------------------------------------------------------------


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
        return within(timeout_s, _all_cards)
    except (NvmlError, TimeoutError):
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
