"""A deck loaded: its task file, read once and expanded for its GPUs after what the journal tells of earlier runs.

Whoever opens a deck, looks at it, plans it or submits it loads it here. The lock, what is recovered, what is taken over
and what is only looked at come on top.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..adapters.journal.db import look_at
from ..adapters.state.folder import StateDir, load_environment
from ..adapters.state.home import relocation
from ..attempts.environment import base_environment
from ..core.apply import replay
from ..core.build import build
from ..core.deck import Deck
from ..core.events import AttemptStarting, Fact
from ..core.recorded import Recorded, recorded
from ..core.selector import Subject
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from ..logs.files import LogFolder
from ..ports import Inventory
from ..taskfile import load as taskfile
from ..taskfile.options import Box, RunOptions
from ..taskfile.source import Source, read_source
from . import handover
from .cuda_devices import limiting
from .gpus import BoxGpus, core_gpus, gpus_for
from .options import AS_TAKEN, BEGINS, Purpose, has_selection, holding, which
from .selection import chosen_by, stand_in_for_left_out, standing_after, with_newcomers, with_running

GpusOf = Callable[[DeckSettings, RunOptions], BoxGpus]
"""Finds the GPUs of a deck with these settings, which it has under these options."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a deck's state folder tells of earlier engines."""

    state: StateDir | None = None
    """None: the deck has never been started."""
    facts: Sequence[Fact] = ()
    told: Recorded = field(default_factory=Recorded)
    """The same in short."""
    damage: str = ""
    """What of the journal cannot be read; `facts` has what comes before."""

    @property
    def environment(self) -> Mapping[str, str] | None:
        """What the attempts of the newest run start from; None: nobody knows."""
        return None if self.state is None else load_environment(self.state.path)


def past_in(state: StateDir | None) -> Past:
    """What is on disk; nothing is locked or changed. Raises EngineUnavailableError for a newer gpudeck's journal."""
    if state is None:
        return Past()
    facts, damage = look_at(state.db)
    return Past(state, facts, recorded(facts), damage)


def as_taken(past: Past, purpose: Purpose) -> bytes | None:
    """The task file as the deck took it last, where it is opened for a *purpose* by that; None: by the file as it is
    now, as after a run has ended, or nobody knows."""
    goes_on = purpose in ("stop", "resume") or past.told.unfinished
    if past.state is None or purpose not in AS_TAKEN or not goes_on:
        return None
    return handover.kept_file(past.state.path) or None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A deck as its file and its past tell it."""

    options: RunOptions
    """Those that hold."""
    environment: Mapping[str, str]
    """What attempts start from."""
    past: Past
    gpus: BoxGpus
    file: DeckFile
    chosen_by: Sequence[Fact] = ()
    """How the deck stood when the run's tasks were chosen."""
    trouble: str = ""
    """Why all tasks are shown, where a selection means none any more."""

    def taken(self) -> DeckFile | None:
        """The file as the deck took it last, under the same options; None: nobody knows, or it cannot be read now."""
        state = self.past.state
        content = None if state is None else handover.kept_file(state.path)
        if content is None:
            return None
        with contextlib.suppress(DeckError):
            source = read_source(self.file.shown, content)
            loader = Loader(source, self.environment, self.past, _found(self.gpus), self.chosen_by, lenient=True)
            return loader.under(self.options).file
        return None

    def tasks_taken(self) -> Mapping[str, TaskSpec]:
        """Tasks by name, of the file as the deck took it last; none where nobody knows."""
        file = self.taken()
        return {} if file is None else {spec.name: spec for spec in file.tasks}


def load(
    source: Source,
    given: RunOptions,
    environ: Mapping[str, str],
    *,
    past: Past | None = None,
    purpose: Purpose = "headless",
    environment: Mapping[str, str] | None = None,
    gpus_of: GpusOf | None = None,
    lenient: bool = False,
) -> Loaded:
    """Expand a task file for a *purpose*, under the options that hold when *given* is said in *environ*.

    *environment*: what attempts start from, where the caller's is not it. *gpus_of*: finds the GPUs; else the driver is
    asked. *lenient*: a selection that means no task any more selects all; so does one of an ended run, if not *given*.
    Raises TaskFileError, UsageError (options and GPUs that cannot be meant) and EngineUnavailableError (no driver).
    """
    past = past or Past()
    environment = base_environment(environ) if environment is None else environment
    options = holding(purpose, past.told, given)
    chosen = past.facts if has_selection(given) or not has_selection(options) else chosen_by(past.facts)
    gpus_of = gpus_of or partial(gpus_for, source, limiting(environ, environment), environment)
    ended = not (past.told.unfinished or purpose in BEGINS or has_selection(given))
    loader = Loader(source, environment, past, gpus_of, chosen, lenient or ended)
    try:
        loaded = loader.under(options)
    except UsageError as error:
        if which(options) == which(given):
            raise
        hint = "The run that goes on was started with that: `gpudeck start --only '*'` takes up all"
        raise UsageError(f"{error}. {hint}") from None
    except TaskFileError:
        if past.told.unfinished or options.set == given.set:
            raise
        options = replace(options, set=given.set)  # the run that it was said for is over, and the file is another
        loaded = loader.under(options)
    if loaded.file.selected is None or past.told.unfinished or purpose in BEGINS:
        return loaded
    newer = with_newcomers(options, loaded.file, loaded.tasks_taken())
    if newer == options:
        return loaded
    return replace(loader, gpus_of=_found(loaded.gpus)).under(newer)


def _found(gpus: BoxGpus) -> GpusOf:
    return lambda _settings, _options: gpus


@dataclass(frozen=True, slots=True)
class Loader:
    """All that a deck is loaded from but the options; see `load`."""

    source: Source
    environment: Mapping[str, str]
    past: Past
    gpus_of: GpusOf
    chosen_by: Sequence[Fact]
    """How the deck stood when its tasks were chosen."""
    lenient: bool = False

    def under(self, options: RunOptions) -> Loaded:
        """Raises TaskFileError and UsageError, and EngineUnavailableError (see `load`)."""
        trouble = ""
        try:
            gpus, file = self._expanded(options)
        except UsageError as error:
            if not self.lenient:
                raise
            trouble = f"{error}; all tasks are shown"
            options = replace(options, only=(), exclude=(), limit=None, with_needs=False)
            gpus, file = self._expanded(options)
        file = with_running(file, self.past.told)
        return Loaded(options, self.environment, self.past, gpus, file, self.chosen_by, trouble)

    def _expanded(self, options: RunOptions) -> tuple[BoxGpus, DeckFile]:
        gpus = BoxGpus(Inventory(()), ())

        def box(settings: DeckSettings) -> Box:
            nonlocal gpus
            gpus = self.gpus_of(settings, options)
            return Box(gpus.count, gpus.cores, self.past.told.shards)

        def look(settings: DeckSettings, tasks: Sequence[TaskSpec]) -> Sequence[Subject]:
            return standing_after(self.chosen_by, gpus.inventory.gpus)(settings, tasks)

        file = taskfile.load(self.source, options, box, environ=self.environment, look=look)
        return gpus, file


# -- as earlier engines left it ---------------------------------------------------------------------------------------


def restored(loaded: Loaded) -> tuple[Deck, dict[str, AttemptStarting], LogFolder]:
    """The deck as its journal leaves it, the starts of attempts that have not ended, by token, and its logs. Reads
    only. Raises EngineUnavailableError where the logs cannot be read."""
    past, state = loaded.past, loaded.past.state
    deck = deck_of(loaded.file, loaded.gpus)
    if state is not None and past.told.lasting:
        kept = handover.load_specs(state.path, past.told.lasting_tokens)
        handover.take_back(deck, kept, past.told, loaded.tasks_taken)
    starts = replay(deck, _where_outputs_are(loaded))
    logs = _logs(loaded, deck)
    stand_in_for_left_out(deck, logs, loaded.file)
    return deck, starts, logs


def _where_outputs_are(loaded: Loaded) -> Iterable[Fact]:
    """What attempts were to make, where it is by now: a deck that was moved has moved it along."""
    moved = str if loaded.past.state is None else relocation(loaded.past.state.path)
    named = {spec.name: spec.outputs for spec in loaded.file.tasks}
    return (
        replace(fact, outputs=tuple(map(moved, fact.outputs)))
        if isinstance(fact, AttemptStarting) and fact.outputs != named.get(fact.task)
        else fact
        for fact in loaded.past.facts
    )


def _logs(loaded: Loaded, deck: Deck) -> LogFolder:
    file, past = loaded.file, loaded.past
    log_dir = file.settings.log_dir
    try:
        former = () if past.state is None else past.state.former_log_dirs(os.path.dirname(file.path), log_dir)
        logs = LogFolder(log_dir, (spec.name for spec in file.tasks), former)
        for task in deck.tasks:
            if not task.attempts or past.damage:
                task.attempts = max(task.attempts, logs.highest(task.name))
    except OSError as error:
        raise EngineUnavailableError(f"log_dir {log_dir} cannot be read: {error.strerror}") from error
    return logs


def deck_of(file: DeckFile, gpus: BoxGpus) -> Deck:
    """A deck before its first run."""
    settings = file.settings
    return build(
        file,
        gpus=core_gpus(settings, gpus.chosen),
        outside=core_gpus(settings, gpus.outside),
        cores=gpus.cores,
        on_cpu=gpus.on_cpu(settings),
    )
