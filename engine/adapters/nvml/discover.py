"""The GPUs of the box, as NVML lists them: cards, MIG instances, and which cards are near each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

from ...ports import GpuInfo
from ..host import names_in, read_text
from .calls import Handle, Nvml, NvmlError

_NVLINK = 100
_FARTHEST = 60
"""Above the largest of NVML's topology levels, so that every level gives a positive closeness."""

T = TypeVar("T")


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


_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"


def has_nvidia_hardware(sys_root: str = "/sys", dev_root: str = "/dev") -> bool:
    """True where the PCI bus has an NVIDIA display device or /dev has NVIDIA nodes.

    Network cards of the same vendor are of another class. A device bound to another driver still counts.
    """
    return _has_device_nodes(dev_root) or _on_pci(f"{sys_root}/bus/pci/devices")


def _has_device_nodes(dev_root: str) -> bool:
    return any(name.startswith("nvidia") for name in names_in(dev_root))


def _on_pci(folder: str) -> bool:
    return any(
        read_text(f"{folder}/{name}/vendor").strip() == _NVIDIA
        and read_text(f"{folder}/{name}/class").startswith(_DISPLAY_CLASS)
        for name in names_in(folder)
    )
