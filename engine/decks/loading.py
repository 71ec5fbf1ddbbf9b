"""A deck loaded: its task file, read once and expanded for its GPUs after what the journal tells of earlier runs.

Whoever opens a deck, looks at it, plans it or submits it loads it here. The lock, what is recovered, what is taken over
and what is only looked at come on top.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ..adapters import host
from ..adapters.journal.db import look_at
from ..adapters.state.folder import StateDir, load_environment
from ..adapters.state.home import relocation
from ..attempt.environment import base_environment
from ..core.apply import derive, replay
from ..core.apply_run import BY_HAND
from ..core.build import build, slots_of, stand_in
from ..core.deck import Deck
from ..core.devices import Gpu
from ..core.events import AttemptStarting, Fact, OptionsChanged, RunEnded, RunStarted
from ..core.phases import FINAL, Phase, Waiting
from ..core.recorded import Recorded, recorded
from ..core.selector import Subject
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..core.subject import subject
from ..errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from ..logs.files import LogFolder
from ..ports import GpuInfo, Inventory
from ..taskfile import load as taskfile
from ..taskfile.options import Box, RunOptions
from ..taskfile.select import Look
from ..taskfile.source import Source, read_source
from . import handover
from .cuda_devices import limiting
from .gpus import BoxGpus, gpus_for
from .options import BEGINS, Purpose, decode, has_selection, holding, taking_in, which

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
    asked. *lenient*: a selection that means no task any more selects all.
    Raises TaskFileError, UsageError (options and GPUs that cannot be meant) and EngineUnavailableError (no driver).
    """
    past = past or Past()
    environment = base_environment(environ) if environment is None else environment
    options = holding(purpose, past.told, given)
    chosen = past.facts if has_selection(given) or not has_selection(options) else chosen_by(past.facts)
    gpus_of = gpus_of or partial(gpus_for, source, limiting(environ, environment), environment)
    loader = Loader(source, environment, past, gpus_of, chosen, lenient)
    try:
        loaded = loader.under(options)
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
            gpus, file = self._expanded(replace(options, only=(), exclude=(), limit=None, with_needs=False))
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


# -- which tasks a run is about ---------------------------------------------------------------------------------------


def with_running(file: DeckFile, told: Recorded) -> DeckFile:
    """What runs belongs to the run, whatever is selected now: a later round must not start beside it."""
    return file if file.selected is None else replace(file, selected=file.selected | told.lasting.keys())


def with_newcomers(options: RunOptions, file: DeckFile, known: Collection[str]) -> RunOptions:
    """A selection ends with its run: it does not leave out what has come into the file since. *known*: the tasks that
    there were; none where nobody knows."""
    if not known or file.selected is None:
        return options
    new = [spec.name for spec in file.tasks if spec.name not in known and spec.name not in file.selected]
    return taking_in(options, new) if new else options


_AS_BEFORE = (BY_HAND, ("new",))
"""What runs take that begin without anybody saying which tasks: by a retry, and of what came into the file."""


def chosen_by(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Those by which the tasks of the newest run were chosen: what came before its selection was said."""
    found, said = len(facts), None
    for at, fact in enumerate(facts):
        if isinstance(fact, (RunStarted, OptionsChanged)):
            selection = which(replace(decode(fact.options), also=()))
            if selection != said or (isinstance(fact, RunStarted) and fact.takes not in _AS_BEFORE):
                found, said = at, selection
    return facts[:found]


def standing_after(facts: Sequence[Fact], gpus: Sequence[GpuInfo]) -> Look:
    """How all tasks of a file stand after *facts*, whatever runs have left out: what `state:blocked` and the like mean
    where a run's tasks are chosen."""

    def look(settings: DeckSettings, tasks: Sequence[TaskSpec]) -> list[Subject]:
        deck = build(DeckFile("", "", settings, tuple(tasks)), gpus=core_gpus(settings, gpus), cores=host.cores())
        replay(deck, _whoever_was_chosen(deck, facts))
        if deck.run.number:
            derive(deck)
        index_of = {gpu.uuid: gpu.index for gpu in gpus}
        return [subject(deck, task, index_of) for task in deck.tasks]

    return look


def _whoever_was_chosen(deck: Deck, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Facts, one by one, for `replay`. What waits when its run ends was left out of it, and is as it was before."""
    before: dict[int, Phase] = {}
    for fact in facts:
        if isinstance(fact, RunStarted):
            before = {task.index: task.phase for task in deck.tasks if isinstance(task.phase, FINAL)}
        yield fact
        if isinstance(fact, RunEnded):
            for index, phase in before.items():
                if isinstance(deck.tasks[index].phase, Waiting):
                    deck.move(deck.tasks[index], phase)


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


def core_gpus(settings: DeckSettings, chosen: Sequence[GpuInfo]) -> list[Gpu]:
    """Those that a deck may use, in order of preference."""
    return [
        Gpu(
            uuid=info.uuid,
            index=info.index,
            order=order,
            slots=slots_of(settings, info.index, info.uuid),
            total_mib=info.total_mib,
            model=info.name,
            links=dict(info.links or {}),
            node=info.node,
            simulated=info.simulated,
            unread=not (info.simulated or info.node),
        )
        for order, info in enumerate(chosen)
    ]


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


def stand_in_for_left_out(deck: Deck, logs: LogFolder, file: DeckFile) -> None:
    """Tasks that --only leaves out count for those that need them: as done, or as not to be had."""
    left_out = [task for task in deck.tasks if not task.selected and task.feeds and not task.gone]
    if not left_out:
        return
    from ..attempt.outputs import is_done  # seldom needed
    from .other_decks import OtherDecks

    others = OtherDecks(file)
    for task in left_out:
        task.left_out_done = is_done(deck, task, logs, others.at)
        stand_in(deck, task, good=task.left_out_done)
