"""`gpudeck gpus`: the GPUs of this box and who uses them, or a deck's; `drain|enable|take N`: what its engine does with
one."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ...engine.adapters.claims.names import Claim, claims_on
from ...engine.adapters.nvml.probe import NvmlProbe
from ...engine.adapters.simulated import SimulatedProbe
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.core.readings import GpuReading, Process
from ...engine.errors import DeckError, EngineUnavailableError, UsageError
from ...engine.headless.painted import Line
from ...engine.ports import GpuInfo, GpuProbe, Inventory
from ...engine.protocol.wire import GpuRow
from ...engine.sampler import sample_once
from ...engine.text import columns_of, field_text, names_text, printable, ranges
from .look import look
from .rows import cluster_lines, cluster_of, gpu_cells, plain
from .screen import Screen, out, print_json, tell

if TYPE_CHECKING:
    from ...engine.serve.offline import OfflineLook

_SAID = {
    "drain": "what runs there ends, nothing new starts",
    "enable": "tasks start there again",
    "take": "tasks start there although others use it",
}

_MOST = 1024
"""GPUs that a range may name."""


def run(command: Command) -> int:
    """Do it to each GPU named, by index or UUID; "3,4" and "0-2" are several. Where none is, the deck's GPUs are shown
    if a task file is named, else the box's."""
    if not command.words:
        of_deck = (command.file or command.flag("queue")) and not command.given.get("gpus")
        return _deck(command) if of_deck else _box(command)
    verb, *texts = command.words
    if verb not in _SAID:
        raise UsageError(f"gpus: {verb} is none of {', '.join(_SAID)}; alone it shows the GPUs of this box")
    wanted = [gpu for text in texts for gpu in named_gpus(text)]
    if not wanted:
        raise UsageError(f"gpus {verb} wants a GPU: `gpudeck gpus {verb} 3`")
    place = Place.of(command)
    existing = place.attach()
    if existing is None:
        from ...engine.serve.offline import offline_look

        found = offline_look(place, quiet=True)
        refuse_other_gpus(found, wanted)
        connection = place.start("act" if found.under_way else "note")
    else:
        place.tell_environment()
        connection = existing
    with connection:
        answer = connection.request("gpu", verb=verb, gpus=wanted)
    indices = [index for index in answer["gpus"] if index >= 0]
    named = ranges(indices) if indices else field_text(", ".join(wanted))
    tell(command, f"{verb}: GPU {named} ({_SAID[verb]})", verb=verb, gpus=answer["gpus"])
    return 0


def refuse_other_gpus(found: OfflineLook, wanted: Sequence[str]) -> None:
    """No engine is started for a GPU that the deck does not have. Raises UsageError."""
    from ...engine.decks.gpus import look_at_gpus

    try:
        chosen = look_at_gpus(found.deck.file.settings, os.environ).chosen
    except EngineUnavailableError:
        return  # the engine tells what is wrong with the driver
    names = {name for gpu in chosen for name in (gpu.uuid, str(gpu.index))}
    for text in wanted:
        if text not in names:
            raise UsageError(f"GPU {text}: this deck uses {', '.join(str(gpu.index) for gpu in chosen) or 'no GPU'}")


def named_gpus(text: str) -> list[str]:
    """Of "3,4" or "0-2" each one. Raises UsageError for a range that is none."""
    found: list[str] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            if not 0 <= int(last) - int(first) < _MOST:
                raise UsageError(
                    f"GPU {part}: a range goes from a lower number to a higher one, over {_MOST} GPUs at most"
                )
            found += map(str, range(int(first), int(last) + 1))
        else:
            found.append(part)
    return found


_DECK_HEADER = ("GPU", "slots", "memory", "util", "tasks", "note")


def _deck(command: Command) -> int:
    """Print them. Of a deck without an engine only simulated ones are known: nobody asks the driver for it."""
    place = Place.of(command)
    found = look(place)
    head, gpus = found.head(), found.gpus()
    cluster = cluster_of(found, head)
    if command.flag("json"):
        print_json({"deck": head.deck, "engine": found.engine, "gpus": plain(gpus), "cluster": plain(cluster)})
        return 0
    screen = out(command, place.hints)
    lines = _lines(gpus, screen) if gpus else []
    if cluster is not None:
        screen.show(list(cluster_lines(cluster, screen)))
        return 0
    nothing = "runs on the CPU" if head.on_cpu else "has no engine: `gpudeck gpus` alone shows the GPUs of this box"
    screen.show(lines or [Line(f"{field_text(head.deck)} {nothing}")])
    return 0


def _lines(gpus: Sequence[GpuRow], screen: Screen) -> list[Line]:
    return [Line(text) for text in columns_of([_DECK_HEADER, *map(_cells, gpus)], screen.columns)]


def _cells(gpu: GpuRow) -> Sequence[str]:
    taken = f"{len(gpu.tasks)} of {gpu.slots}" if gpu.slots else f"{len(gpu.tasks)}, auto"
    name, *rest = gpu_cells(gpu)
    return name, taken, *rest


PATIENCE_S = 15.0
"""A driver that was not loaded, on a box with eight cards, takes seconds."""
QUIET_S = 2.0


def _box(command: Command) -> int:
    """Print one reading. Raises EngineUnavailableError with NVML's words where the driver does not answer."""
    probe = _probe(command.given.get("gpus"))
    waits = f"the NVIDIA driver has not answered yet; waiting up to {PATIENCE_S:g} s"
    patience = threading.Timer(QUIET_S, lambda: print(waits, file=sys.stderr))
    patience.daemon = True
    patience.start()
    try:
        inventory = probe.discover()
    finally:
        patience.cancel()
    if inventory.error:
        raise EngineUnavailableError(inventory.error)
    readings = sample_once(probe, [gpu.uuid for gpu in inventory.gpus]) if inventory.gpus else ()
    if inventory.gpus and not readings:
        raise EngineUnavailableError("the driver gave no reading within 5 s")
    problems = probe.problems if isinstance(probe, NvmlProbe) else ()
    claims = claims_on([gpu.uuid for gpu in inventory.gpus], os.environ)
    print(report(inventory, readings, as_json=command.flag("json"), problems=problems, claims=claims))
    if inventory.gpus or command.flag("json"):
        return 0
    with contextlib.suppress(DeckError):  # the deck of this folder may simulate some
        place = Place.of(command)
        found = look(place)
        if gpus := [gpu for gpu in found.gpus() if gpu.simulated]:
            screen = out(command, place.hints)
            screen.show([Line(f"those of {field_text(found.head().deck)} are simulated:"), *_lines(gpus, screen)])
    return 0


def _probe(asked: str | None) -> GpuProbe:
    if asked is None:
        return NvmlProbe(discover_timeout_s=PATIENCE_S)
    kind, _, count = asked.partition(":")
    if kind != "sim" or not count.isdigit() or not int(count):
        raise UsageError(f"gpus --gpus takes sim:N, got {asked}")
    return SimulatedProbe(int(count))


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
    """A table, or JSON with the same content. *problems*: a line for each GPU that exists and could not be listed.
    *claims*: which deck has which, by UUID."""
    by_uuid = {reading.uuid: reading for reading in readings}
    return (_json if as_json else _table)(inventory, by_uuid, list(map(printable, problems)), claims or {})


# -- table ------------------------------------------------------------------------------------------------------------


def _table(
    inventory: Inventory, readings: Mapping[str, GpuReading], problems: Sequence[str], claims: Mapping[str, Claim]
) -> str:
    """A GPU without a reading is shown, too. *problems*: a line for each that exists and could not be listed."""
    if not inventory.gpus:
        return "no NVIDIA GPU here"
    seen = [(gpu, readings.get(gpu.uuid)) for gpu in inventory.gpus]
    lines = columns_of([_HEADER, *(_row(gpu, reading) for gpu, reading in seen)], right=_RIGHT)
    lost = [(gpu, reading.lost) for gpu, reading in seen if reading is not None and reading.lost]
    lines += [f"GPU {gpu.index} cannot be used: {printable(why)}" for gpu, why in lost]
    lines += [_claim(gpu, claims[gpu.uuid]) for gpu in inventory.gpus if gpu.uuid in claims]
    return "\n".join([*lines, *problems, *_closing(inventory)])


def _claim(gpu: GpuInfo, claim: Claim) -> str:
    tasks = names_text(claim.tasks, _TASKS)
    return f"GPU {gpu.index}: {printable(claim.text)}" + (f": {printable(tasks)}" if tasks else "")


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
