"""The task file as a start needs it: read with what the box and earlier engines tell, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .adapters import host
from .box_gpus import BoxGpus, look_at_gpus
from .core.events import Fact, ShardsFixed
from .core.spec import DeckFile, DeckSettings
from .environment import base_environment
from .errors import UsageError
from .past import History, running_tasks
from .taskfile.fit import check_environment, check_fit
from .taskfile.later import refuse_later
from .taskfile.load import load
from .taskfile.options import Box, RunOptions


def load_for(
    path: str, options: RunOptions, gpus: BoxGpus, facts: Sequence[Fact], environment: Mapping[str, str]
) -> DeckFile:
    """Read the task file for a start on these GPUs, after what *facts* tell. Raises TaskFileError and UsageError."""
    shards = {fact.entry: fact.shards for fact in facts if isinstance(fact, ShardsFixed)}
    box = Box(len(gpus.chosen) or None, host.cores(), shards)
    return load(path, options, box, environ=environment, look=History(facts, gpus.inventory.gpus).look)


def with_running(file: DeckFile, facts: Sequence[Fact]) -> DeckFile:
    """What runs belongs to the run, whatever is selected now: a later round must not start beside it."""
    return file if file.selected is None else replace(file, selected=file.selected | running_tasks(facts))


def asker_of_gpus(path: str, options: RunOptions) -> str:
    """What says which GPUs are wanted, for messages: the task file, or "" for the command line."""
    return "" if options.gpus else path


def check_before_start(file: DeckFile, gpus: BoxGpus, environ: Mapping[str, str]) -> None:
    """What only a start asks for: GPUs that exist, behaviour that exists, variables that the caller gives."""
    check_fit(file, gpus.fitting())
    refuse_later(file)
    check_environment(file, environ)


def check_first_start(path: str, options: RunOptions, settings: DeckSettings, environ: Mapping[str, str]) -> None:
    """A first start that comes to nothing leaves nothing behind."""
    environment = base_environment(environ)
    try:
        gpus = look_at_gpus(settings, environ, asker_of_gpus(path, options))
    except UsageError:
        load(path, options, environ=environment)  # what else is wrong with the file comes first
        raise
    check_before_start(load_for(path, options, gpus, (), environment), gpus, environment)
