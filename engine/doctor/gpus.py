"""GPUs: the driver, what NVML tells of each card, who uses it, and whether it is as training wants it."""

from __future__ import annotations

import os
import queue
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..adapters.claims.names import Claim, claims_on
from ..adapters.nvml.probe import Card, NvmlProbe, look_at_cards
from ..adapters.simulated import SimulatedProbe
from ..core.readings import GpuReading, Process
from ..core.spec import DeckSettings
from ..ports import GpuInfo, GpuProbe, Inventory, Telemetry
from ..text import mib_text, plural, ranges
from .child import Ended, run
from .finding import Finding, Level, fail, ok, warn, worst

_DISCOVER_S = 15.0
_READING_S = 5.0
_SMI_S = 10.0


@dataclass(frozen=True, slots=True)
class Gpus:
    """Everything by UUID that can be known of the box's GPUs. A GPU without a reading gave none in time."""

    inventory: Inventory
    problems: tuple[str, ...] = ()
    """A line for each GPU that exists and could not be listed."""
    readings: Mapping[str, GpuReading] = field(default_factory=dict[str, GpuReading])
    telemetry: Mapping[str, Telemetry] = field(default_factory=dict[str, Telemetry])
    claims: Mapping[str, Claim] = field(default_factory=dict[str, Claim])
    """Which deck has which."""
    cards: tuple[Card, ...] = ()
    smi: Ended | None = None
    """`nvidia-smi -L`; None: there is no such program."""

    @property
    def simulated(self) -> bool:
        return any(gpu.simulated for gpu in self.inventory.gpus)


def look_at(settings: DeckSettings, environ: Mapping[str, str]) -> Gpus:
    """The GPUs that *settings* are about: the box's, or simulated ones."""
    if isinstance(settings.gpus, int):
        count = settings.gpus
        inventory = SimulatedProbe(count).discover()
        readings, telemetry = read_each([gpu.uuid for gpu in inventory.gpus], lambda: SimulatedProbe(count))
        return Gpus(inventory, readings=readings, telemetry=telemetry)
    probe = NvmlProbe(discover_timeout_s=_DISCOVER_S)
    inventory = probe.discover()
    smi = _ask_nvidia_smi(environ)
    if not inventory.gpus:
        return Gpus(inventory, probe.problems, smi=smi)
    uuids = [gpu.uuid for gpu in inventory.gpus]
    readings, telemetry = read_each(uuids, NvmlProbe)
    return Gpus(inventory, probe.problems, readings, telemetry, claims_on(uuids, environ), look_at_cards(), smi)


def read_each(
    uuids: Sequence[str], probe_for: Callable[[], GpuProbe], *, limit_s: float = _READING_S
) -> tuple[dict[str, GpuReading], dict[str, Telemetry]]:
    """Readings and details by UUID, of those that answer within *limit_s*. With a probe for each GPU a call that hangs
    keeps one thread busy, not the others."""
    arrived: queue.SimpleQueue[tuple[GpuReading, ...]] = queue.SimpleQueue()
    readings: dict[str, GpuReading] = {}
    probes = {uuid: probe_for() for uuid in uuids}
    for uuid, probe in probes.items():
        probe.telemetry(uuid)  # asked for, it is read along
        probe.start([uuid], arrived.put, period_s=3600.0)
    deadline = time.monotonic() + limit_s
    try:
        while len(readings) < len(uuids):
            found = arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            readings |= {reading.uuid: reading for reading in found}
    except queue.Empty:
        pass  # the others are told without
    details = {uuid: probes[uuid].telemetry(uuid) for uuid in readings}
    for probe in probes.values():
        probe.stop()
    return readings, {uuid: seen for uuid, seen in details.items() if seen is not None}


def _ask_nvidia_smi(environ: Mapping[str, str]) -> Ended | None:
    path = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if path is None:
        return None
    return run([path, "-L"], env=environ, cwd=os.path.abspath(os.sep), limit_s=_SMI_S)


_NVLINK = 100
"""Closeness from which on GPUs are linked directly, as adapters/nvml tells it."""
_HANGS = "dmesg | grep -i -e xid -e nvrm tells more; a reset or a reboot brings it back"


def check_driver(gpus: Gpus) -> Iterator[Finding]:
    """Driver, NVML, nvidia-smi, and which GPUs there are."""
    inventory = gpus.inventory
    if gpus.simulated:
        yield ok("driver", "simulated GPUs: no driver is asked")
    elif inventory.error:
        yield fail("driver", f"the NVIDIA driver does not answer: {inventory.error}", _driver_remedy(inventory.error))
    elif not inventory.gpus:
        yield ok("driver", "no NVIDIA GPU here, no driver needed")
    else:
        yield ok("driver", f"NVIDIA driver {inventory.driver or '(version not told)'}, NVML answers")
    for problem in gpus.problems if inventory.gpus else ():
        yield fail("driver", problem, _HANGS)
    if not gpus.simulated:
        yield _check_nvidia_smi(gpus)


def check_detection(gpus: Gpus, chosen: Sequence[GpuInfo], trouble: str, *, gpu_tasks: bool) -> Finding:
    """Which GPUs tasks get. *trouble*: why the task file's cannot be had."""
    found = gpus.inventory.gpus
    name = "GPU detection"
    if trouble and not gpus.inventory.error:
        return fail(name, trouble, "gpudeck gpus shows what is there")
    if trouble or not found:
        if gpus.inventory.error:
            return fail(name, "no GPU can be listed", "see driver")
        if not gpu_tasks:
            return ok(name, "no NVIDIA GPU")
        return warn(name, "no NVIDIA GPU", "GPU tasks run on the CPU here, sim:N only plays GPUs")
    used = "" if len(chosen) == len(found) else f"; tasks get {ranges(gpu.index for gpu in chosen) or 'none'}"
    return ok(name, f"{plural(len(found), 'GPU')}: {_models(found)}{used}")


def check_models(chosen: Sequence[GpuInfo]) -> Iterator[Finding]:
    """Ranks of one training wait for the slowest card."""
    if len(chosen) > 1:
        kinds = {(gpu.name, gpu.total_mib) for gpu in chosen}
        if len(kinds) > 1:
            remedy = "for tasks on several GPUs name equal ones, with gpus or gpu_ids: ranks wait for the slowest"
            yield warn("models", f"mixed: {_models(chosen)}", remedy)
        else:
            yield ok("models", f"{len(chosen)} equal GPUs")


def check_links(chosen: Sequence[GpuInfo]) -> Iterator[Finding]:
    if len(chosen) > 1 and all(gpu.links is not None for gpu in chosen):
        pairs = [
            f"{one.index}-{other.index}"
            for place, one in enumerate(chosen)
            for other in chosen[place + 1 :]
            if (one.links or {}).get(other.uuid, 0) >= _NVLINK
        ]
        yield ok("links", f"NVLink between {', '.join(pairs)}" if pairs else "no NVLink: ranks talk over PCIe")


def check_mig(gpus: Gpus) -> Iterator[Finding]:
    on = [card for card in gpus.cards if card.mig]
    empty = [card for card in on if not card.instances]
    if empty:
        which = ranges(card.index for card in empty)
        remedy = f"nvidia-smi mig -i {which} -cgi … -C makes some, nvidia-smi -i {which} -mig 0 ends the mode"
        yield warn("MIG", f"GPU {which} is in MIG mode and has no instances: no task can use it", remedy)
    elif on:
        text = f"{plural(sum(card.instances for card in on), 'instance')} on GPU {ranges(card.index for card in on)}"
        yield ok("MIG", f"{text}; a process sees one instance at most")
    elif gpus.cards:
        yield ok("MIG", "off")


def check_persistence(gpus: Gpus) -> Iterator[Finding]:
    off = [card.index for card in gpus.cards if card.persistence is False]
    if off:
        remedy = "nvidia-smi -pm 1 as root, or the service nvidia-persistenced"
        yield warn("persistence", f"off on GPU {ranges(off)}: each first start waits for the driver", remedy)
    elif any(card.persistence for card in gpus.cards):
        yield ok("persistence", "on")


def check_memory(gpus: Gpus, chosen: Sequence[GpuInfo]) -> Iterator[Finding]:
    told = [
        f"GPU {gpu.index} {reading.used_mib / 1024:.1f} of {reading.total_mib / 1024:.1f} GiB"
        for gpu in chosen
        if (reading := gpus.readings.get(gpu.uuid)) and reading.used_mib is not None and reading.total_mib
    ]
    if told:
        yield ok("memory utilization", ", ".join(told) + (" (simulated)" if gpus.simulated else ""))


def _check_nvidia_smi(gpus: Gpus) -> Finding:
    name, smi = "nvidia-smi", gpus.smi
    if smi is None:
        if not gpus.inventory.gpus:
            return ok(name, "not here")
        return warn(name, "not on PATH", "nothing of gpudeck needs it; containers: NVIDIA_DRIVER_CAPABILITIES=utility")
    if smi.code != 0:
        return fail(name, f"nvidia-smi -L: {smi.how}", _driver_remedy(smi.how))
    count = sum(line.startswith("GPU ") for line in smi.out.splitlines())
    if count != len(gpus.cards) and gpus.cards:
        return warn(name, f"lists {plural(count, 'GPU')}, NVML {len(gpus.cards)}", _HANGS)
    return ok(name, f"lists {plural(count, 'GPU')}")


def _driver_remedy(words: str) -> str:
    low = words.lower()
    if "mismatch" in low:
        return "the driver was updated while it was loaded: reboot, or reload its kernel modules"
    if "not found" in low or "not loaded" in low:
        return "modprobe nvidia tells why; in a container, start it with --gpus all"
    if "permission" in low:
        return "look at the permissions of /dev/nvidia*"
    return _HANGS


def _models(found: Sequence[GpuInfo]) -> str:
    by_name: dict[str, list[int]] = {}
    for gpu in found:
        size = "" if gpu.total_mib is None else f" {gpu.total_mib / 1024:.0f} GiB"
        by_name.setdefault(f"{gpu.name}{size}", []).append(gpu.index)
    return ", ".join(f"{ranges(indices)} {name}" for name, indices in by_name.items())


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
