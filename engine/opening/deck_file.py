"""The task file as a start needs it: read with what the box and earlier engines tell, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..attempt.environment import base_environment
from ..core.events import Fact
from ..core.recorded import Recorded
from ..core.spec import DeckFile, DeckSettings
from ..errors import TaskFileError, UsageError
from ..snapshot.fit import check_snapshot
from ..taskfile.fit import check_environment, check_fit
from ..taskfile.later import refuse_later
from ..taskfile.load import load
from ..taskfile.options import Box, RunOptions
from .backends import require_cluster
from .box_gpus import BoxGpus, look_at_gpus
from .history import History


def load_for(
    path: str,
    options: RunOptions,
    gpus: BoxGpus,
    facts: Sequence[Fact],
    journal: Recorded,
    environment: Mapping[str, str],
) -> DeckFile:
    """Read the task file for a start on these GPUs, after what *facts* tell, *journal* in short. Raises TaskFileError
    and UsageError."""
    box = Box(gpus.count, gpus.cores, journal.shards)
    return load(path, options, box, environ=environment, look=History(facts, gpus.inventory.gpus).look)


def gpus_for(
    path: str,
    options: RunOptions,
    settings: DeckSettings,
    environ: Mapping[str, str],
    environment: Mapping[str, str],
) -> BoxGpus:
    """The box's GPUs and the deck's. *environ* limits them, *environment* is the tasks'.

    Raises UsageError for GPUs that are not to be had, together with what else is wrong with the file, and
    EngineUnavailableError (see `choose`).
    """
    try:
        return look_at_gpus(settings, environ)
    except UsageError as error:
        lines = str(error).splitlines()
    try:
        places = load(path, options, environ=environment).places
    except TaskFileError as broken:
        raise TaskFileError([*broken.problems, *(f"{path}: {line}" for line in lines)]) from None
    place = places.get("gpus", path)
    said = [f"{place if line.startswith('gpus:') else path}: {line}" for line in lines]
    raise UsageError("\n".join(lines if options.gpus else said))


def check_before_start(file: DeckFile, gpus: BoxGpus, environ: Mapping[str, str]) -> None:
    """What only a start asks for: GPUs that exist, behaviour that exists, variables that the caller gives."""
    check_together(
        lambda: check_fit(file, gpus.fitting()),
        lambda: refuse_later(file),
        lambda: check_environment(file, environ),
        lambda: check_snapshot(file),
    )


def check_together(*checks: Callable[[], None]) -> None:
    """Raises one TaskFileError with the problems of all *checks*."""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except TaskFileError as error:
            problems += error.problems
    if problems:
        raise TaskFileError(problems)


def check_first_start(path: str, options: RunOptions, settings: DeckSettings, environ: Mapping[str, str]) -> None:
    """A first start that comes to nothing leaves nothing behind."""
    environment = base_environment(environ)
    gpus = gpus_for(path, options, settings, environ, environment)
    check_before_start(load_for(path, options, gpus, (), Recorded(), environment), gpus, environment)
    require_cluster(settings, environment)
