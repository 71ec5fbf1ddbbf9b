"""The task file as a start needs it: read with what the box and earlier engines tell, and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..attempts.environment import base_environment
from ..core.events import Fact
from ..core.recorded import Recorded
from ..core.spec import DeckFile, DeckSettings
from ..snapshot.fit import check_snapshot
from ..taskfile.fit import check_environment, check_fit, refuse_later
from ..taskfile.load import load
from ..taskfile.options import Box, RunOptions
from ..taskfile.problems import check_together
from .backends import require_cluster
from .box_gpus import BoxGpus, gpus_for
from .past import past_of


def load_for(
    path: str,
    options: RunOptions,
    gpus: BoxGpus,
    facts: Sequence[Fact],
    journal: Recorded,
    environment: Mapping[str, str],
    *,
    content: bytes | None = None,
) -> DeckFile:
    """Read the task file for a start on these GPUs, after what *facts* tell, *journal* in short; *content*: in place of
    what it says now. Raises TaskFileError and UsageError."""
    box = Box(gpus.count, gpus.cores, journal.shards)
    look = past_of(facts, gpus.inventory.gpus)
    return load(path, options, box, environ=environment, look=look, content=content)


def check_before_start(file: DeckFile, gpus: BoxGpus, environ: Mapping[str, str]) -> None:
    """What only a start asks for: GPUs that exist, behaviour that exists, variables that the caller gives."""
    check_together(
        lambda: check_fit(file, gpus.fitting()),
        lambda: refuse_later(file),
        lambda: check_environment(file, environ),
        lambda: check_snapshot(file),
    )


def check_first_start(path: str, options: RunOptions, settings: DeckSettings, environ: Mapping[str, str]) -> None:
    """A first start that comes to nothing leaves nothing behind."""
    environment = base_environment(environ)
    gpus = gpus_for(path, options, settings, environ, environment)
    check_before_start(load_for(path, options, gpus, (), Recorded(), environment), gpus, environment)
    require_cluster(settings, environment)
