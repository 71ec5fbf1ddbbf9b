"""`gpudeck check`: everything that is wrong with a task file, before anything starts."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...engine.adapters import host
from ...engine.attempts.container import typed_client
from ...engine.attempts.environment import base_environment
from ...engine.client.files import task_file
from ...engine.command import Command
from ...engine.core.spec import DeckFile
from ...engine.decks.gpus import gpus_for
from ...engine.doctor.programs import look_for_programs
from ...engine.errors import EngineUnavailableError, TaskFileError
from ...engine.notify.targets import problems_of
from ...engine.taskfile.fit import check_environment, check_fit, refuse_later
from ...engine.taskfile.load import load, load_settings
from ...engine.taskfile.options import Box, RunOptions
from ...engine.taskfile.problems import check_together
from ...engine.taskfile.source import read_source
from ...engine.text import names_text, plural
from .screen import print_json


def run(command: Command) -> int:
    """Returns 0 when the file is sound; raises TaskFileError with all that is wrong."""
    path, options = task_file(command), command.options()
    if command.flag("json"):
        return _check_json(path, options)
    warnings: list[str] = []
    try:
        file = _checked(path, options, warnings)
    finally:
        for line in warnings:
            print(f"warning: {line}")
    print(_verdict(file))
    return 0


def _check_json(path: str, options: RunOptions) -> int:
    """The same as one object, also of a file that is not sound."""
    warnings: list[str] = []
    told: dict[str, Any] = {"file": path, "sound": False, "problems": [], "warnings": warnings}
    try:
        file = _checked(path, options, warnings)
    except TaskFileError as error:
        print_json({**told, "problems": list(error.problems)})
        return error.exit_code
    selected = len(file.chosen)
    counts = {"tasks": len(file.tasks), "selected": selected, "entries": _entries(file), "rounds": _rounds(file)}
    print_json({**told, "sound": True, **counts})
    return 0


def _checked(path: str, options: RunOptions, warnings: list[str]) -> DeckFile:
    """Adds to *warnings*. Raises TaskFileError."""
    source = read_source(path)
    settings = load_settings(source, options)
    environment = base_environment(os.environ)
    gpus = None
    trouble = ""
    try:
        gpus = gpus_for(source, os.environ, environment, settings, options)
    except EngineUnavailableError as error:
        trouble = str(error)
    box = Box(gpus and gpus.count, host.cores())
    file = load(source, options, box, environ=environment)
    fit = [lambda: check_fit(file, gpus.fitting())] if gpus is not None else []
    nowhere = [
        *problems_of(file.settings.notify, {**file.vars, "deck": file.settings.name}, os.environ),
        *_nowhere(file, environment),
    ]
    warnings += [*file.warnings, *filter(None, [trouble]), *_unset(file, environment), *nowhere]
    warnings += [*_beside(file), *_profiles(file, options, lambda other: load(source, other, box, environ=environment))]
    check_together(*fit, lambda: refuse_later(file), lambda: _check_snapshot(file))
    return file


def _check_snapshot(file: DeckFile) -> None:
    if file.settings.snapshot:
        from ...engine.snapshot.fit import check_snapshot  # asks git, and brings with it what copies

        check_snapshot(file)


def _unset(file: DeckFile, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that a start from this shell would miss."""
    try:
        check_environment(file, environment)
    except TaskFileError as error:
        return error.problems
    return ()


def _nowhere(file: DeckFile, environment: Mapping[str, str]) -> list[str]:
    """Folders, programs, scripts, images and partitions that tasks name and that are not there."""
    tasks = file.chosen
    on_slurm = file.settings.backend == "slurm"
    missing = look_for_programs(tasks, environment, here=not on_slurm)
    found = [f"{each.text}: {each.remedy}" for each in missing if each.level == "fail"]
    if any(task.extras.image or typed_client(task) for task in tasks):
        from ...engine.doctor.containers import check_containers  # asks docker and its like

        troubles = [each for each in check_containers(tasks, file.settings, environment) if each.level != "ok"]
        found += [f"{each.text}: {each.remedy}" for each in troubles]
    if on_slurm:
        from .plan import unknown_partitions  # brings with it what makes jobs

        found += unknown_partitions(tasks)
    return found


def _beside(file: DeckFile) -> Iterable[str]:
    """Decks that run tasks with the same outputs now."""
    try:
        others = set(os.listdir(file.settings.state_dir)) - {file.stem}
    except OSError:
        return ()
    if not others:
        return ()
    from ...engine.decks.other_decks import OtherDecks  # reads journals: slow to load

    return OtherDecks(file).at_work(file.chosen)


def _profiles(file: DeckFile, options: RunOptions, read: Callable[[RunOptions], DeckFile]) -> Iterator[str]:
    """Profiles that keep their logs apart, as if their results were, and write the file's own outputs as other work."""
    profiles = tomllib.loads(file.text).get("profile", {})
    for name in [name for name, tables in profiles.items() if "log_dir" in tables.get("deck", {})]:
        if options.profile not in (None, name):
            continue
        try:
            other = read(replace(options, profile=None if options.profile else name))
        except TaskFileError:  # it is told of where it is checked
            continue
        from ...engine.globs import real  # seldom needed

        theirs = {real(path): spec.fingerprint for spec in other.tasks for path in spec.outputs}
        mine = [(spec, real(path)) for spec in file.tasks for path in spec.outputs]
        both = [spec.name for spec, path in mine if theirs.get(path, spec.fingerprint) != spec.fingerprint]
        if both:
            yield (
                f"{file.shown}: [profile.{name}] has a log_dir of its own, and does other work with the outputs of "
                f"{names_text(both, 1)}: give it outputs of its own, too"
            )


def _verdict(file: DeckFile) -> str:
    entries, rounds = _entries(file), _rounds(file)
    tasks = f"{plural(len(file.tasks), 'task')} from {entries} entr{'y' if entries == 1 else 'ies'}"
    chosen = "" if file.selected is None else f", {len(file.selected)} of them selected"
    in_rounds = f" in {rounds} rounds" if rounds > 1 else ""
    return f"{file.shown}: sound; {tasks}{in_rounds}{chosen}"


def _entries(file: DeckFile) -> int:
    return len({spec.entry for spec in file.tasks})


def _rounds(file: DeckFile) -> int:
    return len({(spec.group, spec.round) for spec in file.tasks})
