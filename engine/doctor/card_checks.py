"""A line for each GPU: whether it answers, its health, what slows it, who uses it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..core.readings import GpuReading, Process
from ..core.spec import DeckSettings
from ..headless.text import mib_text
from ..ports import GpuInfo
from .finding import Finding, Level, worst
from .gpu_look import Gpus

_SLOWED = frozenset({"hw thermal", "thermal", "power brake", "hw slowdown"})
"""Reasons that nobody wants; the power limit is met by any busy card."""
_PROHIBITED, _EXCLUSIVE = 2, 3

Part = tuple[Level, str, str]
"""How bad, what was seen, what to do."""


def check_cards(gpus: Gpus, chosen: Sequence[GpuInfo], settings: DeckSettings) -> Iterator[Finding]:
    for gpu in chosen:
        parts = list(_parts(gpus, gpu, settings))
        level = worst(Finding(each[0], "", "") for each in parts)
        texts = "; ".join(each[1] for each in parts if each[0] == level or level != "ok")
        remedies = "; ".join(each[2] for each in parts if each[0] == level and each[2])
        yield Finding(level, f"GPU {gpu.index}", texts, remedies)


def foreign_on(gpus: Gpus, gpu: GpuInfo) -> tuple[Process, ...]:
    """Who computes there that belongs to no deck of this box."""
    reading = gpus.readings.get(gpu.uuid)
    if reading is None or gpu.uuid in gpus.claims:
        return ()
    return tuple(process for process in reading.processes if not process.graphics and not process.token)


def is_idle(gpus: Gpus, gpu: GpuInfo) -> bool:
    """It answers, and nobody computes there: neither a deck nor anybody else."""
    reading = gpus.readings.get(gpu.uuid)
    return reading is not None and not reading.lost and gpu.uuid not in gpus.claims and not foreign_on(gpus, gpu)


def _parts(gpus: Gpus, gpu: GpuInfo, settings: DeckSettings) -> Iterator[Part]:
    reading = gpus.readings.get(gpu.uuid)
    if reading is None:
        yield "fail", "gives no answer in 5 s", "dmesg | grep -i xid; until it is mended leave it out of gpus"
        return
    if reading.lost:
        yield "fail", f"cannot be used: {reading.lost}", "nvidia-smi -r resets it when idle; else reboot"
        return
    yield "ok", _condition(gpu, reading), ""
    yield from _health(gpus, gpu)
    yield from _mode(gpus, gpu, settings)
    yield from _users(gpus, gpu, settings)


def _condition(gpu: GpuInfo, reading: GpuReading) -> str:
    known = [
        f"{reading.temperature_c} °C" if reading.temperature_c is not None else "",
        f"{reading.power_w:.0f} W" if reading.power_w is not None else "",
        f"{reading.util_percent} % busy" if reading.util_percent is not None else "",
    ]
    name = f"SIM {gpu.name.removeprefix('SIM ')}" if gpu.simulated else gpu.name
    return ", ".join(filter(None, [name, "answers", *known]))


def _health(gpus: Gpus, gpu: GpuInfo) -> Iterator[Part]:
    seen = gpus.telemetry.get(gpu.uuid)
    if seen is None:
        return
    for line in seen.health:
        failed = "failed" in line
        yield "fail" if failed else "warn", line, "have it replaced" if failed else "nvidia-smi -r when it is idle"
    slowed = [reason for reason in seen.throttle or () if reason in _SLOWED]
    if slowed:
        yield "warn", f"throttled: {', '.join(slowed)}", "look at cooling and power; nvidia-smi -q -d PERFORMANCE"


def _mode(gpus: Gpus, gpu: GpuInfo, settings: DeckSettings) -> Iterator[Part]:
    card = next((card for card in gpus.cards if card.index == gpu.index and not gpu.mig), None)
    if card is None:
        return
    if card.compute_mode == _PROHIBITED:
        yield "fail", "its compute mode forbids to compute", f"nvidia-smi -i {gpu.index} -c DEFAULT as root"
    elif card.compute_mode == _EXCLUSIVE and settings.slots_per_gpu != 1:
        yield (
            "fail",
            "takes one process at a time, and slots_per_gpu wants more",
            f"nvidia-smi -i {gpu.index} -c DEFAULT",
        )
    elif card.compute_mode == _EXCLUSIVE:
        yield "ok", "takes one process at a time", ""


def _users(gpus: Gpus, gpu: GpuInfo, settings: DeckSettings) -> Iterator[Part]:
    claim = gpus.claims.get(gpu.uuid)
    if claim is not None:
        yield "ok", claim.text, ""
    others = foreign_on(gpus, gpu)
    if not others:
        return
    who = ", ".join(f"{_owner(each)} (pid {each.pid}{_size(each)})" for each in others)
    does = {
        "avoid": "tasks wait until they are gone",
        "fit": "tasks share it where gpu_memory fits",
        "ignore": "tasks start there all the same",
    }[settings.foreign]
    yield "warn", f"used by {who}", f'foreign = "{settings.foreign}": {does}'


def _owner(process: Process) -> str:
    return process.user or ("somebody" if process.visible else "somebody outside this container")


def _size(process: Process) -> str:
    return "" if process.used_mib is None else f", {mib_text(process.used_mib)}"
