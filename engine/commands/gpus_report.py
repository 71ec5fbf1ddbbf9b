"""What `gpudeck gpus` prints: the GPUs of the box, what they do and who uses them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ..adapters.claims.names import Claim
from ..core.readings import GpuReading, Process
from ..ports import GpuInfo, Inventory
from ..text import columns_of, names_text, printable

_HEADER = ("GPU", "name", "memory", "util", "temp", "power", "processes", "uuid")
_RIGHT = (0, 2, 3, 4, 5)
_UNKNOWN = "n/a"
_NOT_READ = "no answer"
_TASKS = 4
"""Named of what a deck runs on one GPU."""


def report(
    inventory: Inventory,
    readings: Sequence[GpuReading],
    *,
    as_json: bool,
    problems: Sequence[str] = (),
    claims: Mapping[str, Claim] | None = None,
) -> str:
    """A table, or JSON with the same content, without a newline at its end. A GPU without a reading is shown, too.

    *problems*: a line for each GPU that exists and could not be listed. *claims*: which deck has which, by UUID.
    """
    by_uuid = {reading.uuid: reading for reading in readings}
    make = _json if as_json else _table
    return make(inventory, by_uuid, [printable(problem) for problem in problems], claims or {})


# -- table ------------------------------------------------------------------------------------------------------------


def _table(
    inventory: Inventory, readings: Mapping[str, GpuReading], problems: Sequence[str], claims: Mapping[str, Claim]
) -> str:
    if not inventory.gpus:
        return _nothing(inventory)
    rows = [_HEADER, *(_row(gpu, readings.get(gpu.uuid)) for gpu in inventory.gpus)]
    lines = columns_of(rows, right=_RIGHT)
    lines += [f"GPU {gpu.index} cannot be used: {printable(why)}" for gpu, why in _lost(inventory, readings)]
    lines += [_claim(gpu, claims[gpu.uuid]) for gpu in inventory.gpus if gpu.uuid in claims]
    return "\n".join([*lines, *problems, *_closing(inventory)])


def _claim(gpu: GpuInfo, claim: Claim) -> str:
    tasks = names_text(claim.tasks, _TASKS)
    return f"GPU {gpu.index}: {printable(claim.text)}" + (f": {printable(tasks)}" if tasks else "")


def _nothing(inventory: Inventory) -> str:
    if inventory.error:
        return f"the NVIDIA driver does not answer: {printable(inventory.error)}"
    return "no NVIDIA GPU here"


def _row(gpu: GpuInfo, reading: GpuReading | None) -> tuple[str, ...]:
    start = (str(gpu.index), _name(gpu))
    if reading is None or reading.lost:
        return (*start, _size(gpu.total_mib), "", "", "", "LOST" if reading else _NOT_READ, gpu.uuid)
    return (
        *start,
        _memory(reading),
        _with_unit(reading.util_percent, "%"),
        _with_unit(reading.temperature_c, "°C"),
        _with_unit(None if reading.power_w is None else round(reading.power_w), "W"),
        _users(reading.processes),
        gpu.uuid,
    )


def _name(gpu: GpuInfo) -> str:
    name = printable(gpu.name)
    return f"SIM {name.removeprefix('SIM ')}" if gpu.simulated else name


def _lost(inventory: Inventory, readings: Mapping[str, GpuReading]) -> list[tuple[GpuInfo, str]]:
    return [(gpu, reading.lost) for gpu in inventory.gpus if (reading := readings.get(gpu.uuid)) and reading.lost]


def _closing(inventory: Inventory) -> list[str]:
    if any(gpu.simulated for gpu in inventory.gpus):
        return ["simulated GPUs: nothing here is real"]
    return [f"driver {printable(inventory.driver)}"] if inventory.driver else []


def _memory(reading: GpuReading) -> str:
    if reading.used_mib is None and reading.total_mib is None:
        return _UNKNOWN
    return f"{_gib(reading.used_mib)} / {_size(reading.total_mib)}"


def _size(mib: int | None) -> str:
    return _UNKNOWN if mib is None else f"{_gib(mib)} GiB"


def _gib(mib: int | None) -> str:
    return _UNKNOWN if mib is None else f"{mib / 1024:.1f}"


def _with_unit(value: int | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value} {unit}"


def _users(processes: Sequence[Process]) -> str:
    """ "alice 4711 31.0 GiB, bob 4712 n/a"; processes that only draw come last and are marked."""
    ordered = sorted(processes, key=lambda process: (process.graphics, process.pid))
    return ", ".join(_user(process) for process in ordered) or "-"


def _user(process: Process) -> str:
    who = printable(process.user) or ("?" if process.visible else "outside")
    kind = " (graphics)" if process.graphics else ""
    return f"{who} {process.pid} {_size(process.used_mib)}{kind}"


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json(
    inventory: Inventory, readings: Mapping[str, GpuReading], problems: Sequence[str], claims: Mapping[str, Claim]
) -> str:
    content = {
        "driver": inventory.driver,
        "error": inventory.error,
        "hardware": inventory.hardware,
        "problems": list(problems),
        "gpus": [_gpu_object(gpu, readings.get(gpu.uuid), claims.get(gpu.uuid)) for gpu in inventory.gpus],
    }
    return json.dumps(content, indent=2, ensure_ascii=False)


def _gpu_object(gpu: GpuInfo, reading: GpuReading | None, claim: Claim | None) -> dict[str, object]:
    """null where something is not known; `lost` is "" for a GPU that answers; `claim` is null where no deck has it."""
    now = reading or GpuReading(uuid=gpu.uuid, at=0.0, lost=_NOT_READ)
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "mig": gpu.mig,
        "simulated": gpu.simulated,
        "size_mib": gpu.total_mib,
        "total_mib": now.total_mib,
        "used_mib": now.used_mib,
        "util_percent": now.util_percent,
        "temperature_c": now.temperature_c,
        "slowdown_c": gpu.slowdown_c,
        "power_w": now.power_w,
        "power_limit_w": gpu.power_limit_w,
        "lost": now.lost,
        "links": dict(gpu.links) if gpu.links is not None else None,
        "processes": [_process_object(process) for process in now.processes],
        "claim": None if claim is None else asdict(claim),
    }


def _process_object(process: Process) -> dict[str, object]:
    return {
        "pid": process.pid,
        "user": process.user or None,
        "used_mib": process.used_mib,
        "graphics": process.graphics,
        "visible": process.visible,
    }
