"""`gpudeck submit`: the deck's tasks as Slurm jobs that wait for each other; no engine runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...engine.client.attach import has_engine
from ...engine.client.files import task_file
from ...engine.client.place import say
from ...engine.command import Command
from ...engine.decks.offline import open_as_start
from ...engine.errors import EngineUnavailableError, UsageError
from ...engine.submit.target import Target, check_start
from ...engine.submit.write import Written, write
from ...engine.taskfile.options import RunOptions
from ...engine.taskfile.settings import stem_of
from ...engine.text import names_text, plural
from .screen import print_json

FOLDER = "slurm"


def run(command: Command) -> int:
    """Write the scripts; with --go submit them. Raises DeckError."""
    path, options = os.path.abspath(task_file(command)), replace(command.options(), backend="slurm")
    go = command.flag("go")
    if has_engine(path, options):  # both would run the same tasks
        raise UsageError("an engine runs this deck and submits its jobs itself: `gpudeck stop` ends it")
    if go and shutil.which("sbatch") is None:
        raise EngineUnavailableError("there is no sbatch on this machine: `gpudeck submit` without --go only writes")
    target = Target(open_as_start(path, options, os.environ))
    if running := list(target.journal.lasting):
        raise UsageError(
            f"{names_text(running, 1)} was begun by an engine and has not ended: `gpudeck` goes on with it"
        )
    check_start(target)
    folder = _folder(command.given.get("out"), path, options)
    written = write(target, folder, os.environ)
    warnings = list(target.warnings)
    warnings += [f"{task} was submitted as other work than the file says now, and stays so" for task in written.changed]
    if command.flag("json"):
        print_json(_told(written, warnings))
    else:
        _tell(written, warnings, go=go)
    return _submitted(written, quiet=command.flag("json")) if go and written.units else 0


def _folder(said: str | None, path: str, options: RunOptions) -> str:
    if said:
        return os.path.abspath(os.path.expanduser(said))
    stem = stem_of(path, options)
    return os.path.join(os.path.dirname(path), FOLDER, *([] if stem == "tasks" else [stem]))


def _submitted(written: Written, *, quiet: bool) -> int:
    """The exit code of submit.sh: 1 where something was not submitted, 3 where Slurm does not answer."""
    out = sys.stderr if quiet else None
    sys.stdout.flush()
    return subprocess.run(["bash", written.submit], stdin=subprocess.DEVNULL, stdout=out, check=False).returncode


def _tell(written: Written, warnings: list[str], *, go: bool) -> None:
    for line in warnings:
        say(f"warning: {line}")
    shown = os.path.relpath(written.submit)
    tasks = sum(len(unit.pieces) for unit in written.units)
    jobs = f"{plural(tasks, 'task')} in {plural(len(written.units), 'job')}"
    counts = [jobs if written.units else "nothing to submit"]
    counts += [f"{len(written.done)} done earlier"] * bool(written.done)
    counts += [f"{len(written.in_flight)} submitted earlier and not over"] * bool(written.in_flight)
    print(f"{shown}: {', '.join(counts)}")
    if written.not_expressed:
        print("without an engine:")
        for line in written.not_expressed:
            print(f"  {line}")
    if written.units and not go:
        print(f"submit: bash {shown}")


def _told(written: Written, warnings: list[str]) -> Mapping[str, Any]:
    return {
        "folder": written.folder,
        "submit": written.submit,
        "jobs": [
            {
                "name": unit.name,
                "script": os.path.join(written.folder, unit.script),
                "tasks": [
                    {"task": piece.spec.name, "token": piece.token, "log": piece.order.stdout} for piece in unit.pieces
                ],
                "after_ok": list(unit.waits.ok),
                "after_end": list(unit.waits.ended),
            }
            for unit in written.units
        ],
        "done": list(written.done),
        "in_flight": list(written.in_flight),
        "without_an_engine": list(written.not_expressed),
        "warnings": warnings,
    }
