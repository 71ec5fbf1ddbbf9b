"""Judgements on driver and GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..headless.text import plural, ranges
from ..ports import GpuInfo
from .finding import Finding, fail, ok, warn
from .gpu_look import Gpus

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
        yield _nvidia_smi(gpus)


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
    used = "" if len(chosen) == len(found) else f"; tasks get {_numbers(chosen)}"
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


def _nvidia_smi(gpus: Gpus) -> Finding:
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


def _numbers(found: Sequence[GpuInfo]) -> str:
    return ranges(gpu.index for gpu in found) if found else "none"
