"""`gpudeck ls`: a line for each task."""

from __future__ import annotations

from typing import cast

from ...engine.adapters.processes.terminal import as_typed
from ...engine.client.place import Place, say
from ...engine.command import Command
from ...engine.headless.painted import Line
from ...engine.protocol.wire import TaskRow
from ...engine.runs.book import entries_in
from ...engine.taskfile.placeholders import unescaped
from ...engine.text import columns_of, command_text
from .look import look, nobody
from .rows import gpu_text, node_text, note_text, plain, state_text, time_text, tone
from .screen import out, print_json

_HEAD = ("task", "state", "gpu", "attempt", "time", "reason")
_SLURM_HEAD = ("task", "state", "node", "job", "attempt", "time", "reason")


def run(command: Command) -> int:
    """Print the tasks that the selectors mean, in file order."""
    place = Place.of(command)
    found = look(place)
    rows = found.rows(command.words)
    if command.flag("json"):
        print_json(plain(found.with_metrics(rows)))
        return 0
    if not rows:
        say(nobody(command.words) if command.words else "no task")
        return 0
    screen = out(command)
    slurm = any(row.job for row in rows)
    typed = _typed(place.path) if place.hints.queue else {}
    notes = ["  ".join(filter(None, (note_text(row), typed.get(row.name)))) for row in rows]
    cells = [
        (row.name, state_text(row), *_place(row, slurm=slurm), str(row.attempt or "-"), time_text(row), note)
        for row, note in zip(rows, notes, strict=True)
    ]
    heads = _SLURM_HEAD if slurm else _HEAD
    head, *lines = columns_of([(*heads[:-1], "reason, command") if typed else heads, *cells], screen.columns)
    screen.show([Line(head, tone="bold"), *(Line(text, tone=tone(row)) for text, row in zip(lines, rows, strict=True))])
    return 0


def _typed(path: str) -> dict[str, str]:
    """By name, the commands of the queue whose file this is: their names tell little of them."""
    commands = {str(entry["name"]): cast("str | list[str]", entry["command"]) for entry in entries_in(path)}
    return {name: unescaped(command_text(as_typed(command))) for name, command in commands.items()}


def _place(row: TaskRow, *, slurm: bool) -> tuple[str, ...]:
    return (node_text(row), row.job or "-") if slurm else (gpu_text(row),)
