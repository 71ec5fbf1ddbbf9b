"""`gpudeck check`: everything that is wrong with a task file, before anything starts."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..adapters import host
from ..attempt.environment import base_environment
from ..command import Command
from ..core.spec import DeckFile
from ..errors import EngineUnavailableError, TaskFileError
from ..notify.targets import problems_of
from ..opening.deck_file import check_together, gpus_for
from ..taskfile.fit import check_environment, check_fit
from ..taskfile.later import refuse_later
from ..taskfile.load import load, load_settings
from ..taskfile.options import Box, RunOptions
from .place import task_file


def run(command: Command) -> int:
    """Returns 0 when the file is sound; raises TaskFileError with all that is wrong."""
    return check(task_file(command), command.options())


def check(path: str, options: RunOptions) -> int:
    """Read, validate and expand a file, compare it with this box, and say so. Raises TaskFileError."""
    settings = load_settings(path, options)
    environment = base_environment(os.environ)
    gpus = None
    trouble = ""
    try:
        gpus = gpus_for(path, options, settings, os.environ, environment)
    except EngineUnavailableError as error:
        trouble = str(error)
    count = len(gpus.chosen) if gpus is not None else 0
    file = load(path, options, Box(count or None, host.cores(), {}), environ=environment)
    fit = [lambda: check_fit(file, gpus.fitting())] if gpus is not None else []
    for line in [*file.warnings, *([trouble] if trouble else []), *_unset(file, environment), *_notify(file)]:
        print(f"warning: {line}")
    check_together(*fit, lambda: refuse_later(file))
    print(_verdict(file))
    return 0


def _unset(file: DeckFile, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that a start from this shell would miss."""
    try:
        check_environment(file, environment)
    except TaskFileError as error:
        return error.problems
    return ()


def _notify(file: DeckFile) -> list[str]:
    """What would keep messages from being sent."""
    return problems_of(file.settings.notify, {**file.vars, "deck": file.settings.name}, os.environ)


def _verdict(file: DeckFile) -> str:
    entries = len({spec.entry for spec in file.tasks})
    tasks = f"{len(file.tasks)} task{'s' * (len(file.tasks) != 1)} from {entries} entr{'y' if entries == 1 else 'ies'}"
    rounds = {(spec.group, spec.round) for spec in file.tasks}
    chosen = "" if file.selected is None else f", {len(file.selected)} of them selected"
    in_rounds = f" in {len(rounds)} rounds" if len(rounds) > 1 else ""
    return f"{file.shown}: sound; {tasks}{in_rounds}{chosen}"
