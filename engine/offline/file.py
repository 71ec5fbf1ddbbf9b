"""The task file of a deck that is looked at without an engine: as its newest run sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..adapters import host
from ..adapters.simulated_gpus import simulated_gpus
from ..core.events import Fact
from ..core.recorded import Recorded
from ..core.spec import DeckFile, DeckSettings
from ..errors import TaskFileError, UsageError
from ..opening.left_out import with_running
from ..opening.past import before_the_run, past_of
from ..ports import GpuInfo
from ..taskfile.load import load, load_settings
from ..taskfile.options import Box, RunOptions


def settings_of(path: str, given: RunOptions) -> tuple[DeckSettings, str]:
    """The [deck] table, and what is wrong with the file where that cannot be read as it should."""
    try:
        return load_settings(path, given), ""
    except TaskFileError as error:
        from ..opening.settings_despite import settings_despite  # seldom needed

        return settings_despite(path, given), str(error)


def first_of(broken: str) -> str:
    """The first of several problems, on one line."""
    lines = broken.splitlines()
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more: `gpudeck check`)"


def load_as_run(
    path: str,
    options: RunOptions,
    gpus: Sequence[GpuInfo],
    facts: Sequence[Fact],
    journal: Recorded,
    environment: Mapping[str, str],
    warnings: list[str],
    content: bytes | None = None,
) -> DeckFile:
    """The file as the newest run sees it: what its selection meant was decided by what came before it. *content*: in
    place of what the file says now. Raises TaskFileError; a selection that means nothing any more is a line in
    *warnings*."""
    box = Box(len(gpus) or None, host.cores(), journal.shards)
    look = past_of(before_the_run(facts), gpus)
    try:
        file = load(path, options, box, environ=environment, look=look, content=content)
    except UsageError as error:
        warnings.append(f"{error}; all tasks are shown")
        everything = replace(options, only=(), exclude=(), limit=None, with_needs=False)
        file = load(path, everything, box, environ=environment, look=look, content=content)
    return with_running(file, journal)


def simulated(settings: DeckSettings) -> tuple[GpuInfo, ...]:
    """The GPUs of a deck that has simulated ones."""
    return simulated_gpus(settings.gpus) if isinstance(settings.gpus, int) else ()
