"""`gpudeck gpus -f FILE`: the GPUs of a deck, their slots and what is on them."""

from __future__ import annotations

from collections.abc import Sequence

from ..client.place import Place
from ..command import Command
from ..headless.painted import Line
from ..protocol.wire import GpuRow
from ..text import columns_of, field_text
from .cluster_text import cluster_lines, cluster_of
from .look import look
from .rows import gpu_note, memory_text, plain, util_text
from .screen import out, print_json

_HEADER = ("GPU", "slots", "memory", "util", "tasks", "note")


def run(command: Command) -> int:
    """Print them. Of a deck without an engine only simulated ones are known: nobody asks the driver for it."""
    place = Place.of(command)
    found = look(place)
    head, gpus = found.head(), found.gpus()
    cluster = cluster_of(found, head)
    if command.flag("json"):
        print_json(
            {
                "deck": head.deck,
                "engine": found.engine,
                "gpus": [plain(gpu) for gpu in gpus],
                "cluster": None if cluster is None else plain(cluster),
            }
        )
        return 0
    screen = out(place.hints)
    lines = [Line(text) for text in columns_of([_HEADER, *map(_cells, gpus)], screen.columns)] if gpus else []
    if cluster is not None:
        screen.show(list(cluster_lines(cluster, screen)))
        return 0
    nothing = "runs on the CPU" if head.on_cpu else "has no engine: `gpudeck gpus` alone shows the GPUs of this box"
    screen.show(lines or [Line(f"{field_text(head.deck)} {nothing}")])
    return 0


def _cells(gpu: GpuRow) -> Sequence[str]:
    taken = f"{len(gpu.tasks)} of {gpu.slots}" if gpu.slots else f"{len(gpu.tasks)}, auto"
    name = f"SIM {gpu.index}" if gpu.simulated else str(gpu.index)
    return name, taken, memory_text(gpu), util_text(gpu), ", ".join(gpu.tasks) or "-", gpu_note(gpu)
