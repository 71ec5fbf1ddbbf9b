"""A deck looked at without an engine: nothing is locked, made or changed, and an engine may run it meanwhile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal

import msgspec

from ..adapters import host
from ..adapters.journal.db import look_at
from ..adapters.processes import record
from ..adapters.simulated_gpus import simulated_gpus
from ..adapters.state.folder import StateDir, load_environment
from ..adapters.state.lock import Holder, held_by, this_machine
from ..attempt.environment import base_environment
from ..core.apply import derive, replay
from ..core.build import build
from ..core.deck import Deck, Task
from ..core.events import AttemptStarting, Fact, TaskCached, TaskCancelled
from ..core.recorded import Recorded, recorded
from ..core.spec import DeckFile, DeckSettings, Resources, TaskSpec, Work
from ..errors import EngineUnavailableError, TaskFileError, UsageError
from ..logs.files import AttemptPaths, LogFolder
from ..logs.told import read_record
from ..opening.core_gpus import core_gpus
from ..opening.left_out import stand_in_for_left_out, with_newcomers, with_running
from ..opening.own_state import find_own_state
from ..opening.past import before_the_run, past_of
from ..opening.run_options import holding
from ..opening.submitted import Sent, submitted
from ..ports import GpuInfo
from ..serve.requested import select
from ..taskfile.load import load, load_settings
from ..taskfile.options import Box, RunOptions
from ..taskfile.settings import stem_of

if TYPE_CHECKING:
    from ..live.plan import FilePlan


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


def file_despite(path: str, options: RunOptions, settings: DeckSettings, facts: Iterable[Fact]) -> DeckFile:
    """The tasks that the journal knows, as far as it knows them."""
    tasks = [
        TaskSpec(
            name=name,
            entry=name,
            position=position,
            work=Work(""),
            fingerprint=fact.fingerprint if fact is not None else "",
            resources=Resources(gpus=len(fact.gpus) if isinstance(fact, AttemptStarting) else 1),
        )
        for position, (name, fact) in enumerate(_newest(facts).items())
    ]
    return DeckFile(
        path=os.path.abspath(path), stem=stem_of(path, options), settings=settings, tasks=tuple(tasks), shown=path
    )


def _newest(facts: Iterable[Fact]) -> Mapping[str, AttemptStarting | TaskCached | None]:
    """Each task's newest fact that tells what it is, in the order in which they were first heard of."""
    found: dict[str, AttemptStarting | TaskCached | None] = {}
    for fact in facts:
        if isinstance(fact, (AttemptStarting, TaskCached)):
            found[fact.task] = fact
        elif isinstance(fact, TaskCancelled):
            found.setdefault(fact.task)
    return found


Standing = Literal["runs", "ended", "gone", "unknown"]
"""What became of an attempt that has not ended as far as the journal knows."""


_MOST_READ = 64
"""So many attempt-N.json at most are read to find out which GPU is which: what they lacked, others may lack too."""


class _RecordedGpu(msgspec.Struct, frozen=True):
    index: int
    uuid: str


@dataclass(slots=True)
class Offline:
    """A deck as its journal tells it."""

    deck: Deck
    """Replayed; phases that follow from others (queued, blocked) are worked out as an engine would."""
    file: DeckFile
    state: StateDir | None
    """None: the deck has never been started."""
    logs: LogFolder
    holder: Holder | None
    """Who has the deck's lock now; None: no engine runs it."""
    elsewhere: str
    """What to say where no engine runs it and its tasks were left on another machine; "" otherwise."""
    facts: Sequence[Fact]
    journal: Recorded
    """The same in short."""
    options: RunOptions
    """Those of the newest run, with what was given in place of what was."""
    unfinished: bool = False
    """The newest run has not ended: the next start goes on with it."""
    broken: str = ""
    """What is wrong with the task file, a line each; then `deck` has only what the journal knows: names, no needs."""
    damage: str = ""
    """What of the journal cannot be read; `facts` has what comes before."""
    warnings: list[str] = field(default_factory=list[str])
    submitted: Sequence[Sent] = ()
    """Tasks that Slurm was given and no engine has taken up."""
    index_of: dict[str, int] = field(default_factory=dict[str, int])
    """GPUs by UUID, as far as they are known."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What attempts start from, as far as it is known."""
    _unread: int = _MOST_READ
    _learnt: bool = False

    @property
    def gone(self) -> list[str]:
        """Tasks that have run and that the file no longer has."""
        names = dict.fromkeys(task for task, _ in self.journal.starts)
        return [name for name in names if name not in self.deck.by_name]

    def standing(self, token: str) -> Standing:
        """What the record of an attempt tells, which outlives the engine. Reads a small file."""
        if self.state is None:
            return "unknown"
        found = record.read(os.path.join(self.state.attempts, token))
        if found.end or found.void:
            return "ended"
        attempt = self.deck.active[token].attempt() if token in self.deck.active else None
        if found.wrapper is None or self.elsewhere or (attempt is not None and attempt.job):
            return "unknown"  # of a job on another node its cluster would have to be asked
        run = self.deck.run
        if run.boot_id not in ("", host.boot_id()):
            return "gone"
        if attempt is not None and attempt.pid_ns not in (0, this_machine().pid_ns):
            return "unknown"
        return "runs" if found.wrapper.living() is not None else "gone"

    def gpus_of(self, task: Task) -> tuple[int, ...]:
        """Indices of the GPUs of a task's newest attempt, as attempt-N.json has them: the driver is not asked. One such
        file is read for each GPU, not for each task."""
        uuids = _uuids_of(task)
        if any(uuid not in self.index_of for uuid in uuids) and self._unread > 0:
            self._unread -= 1
            self.learn(self.logs.paths(task.name, task.attempts, False).json)
        return tuple(self.index_of[uuid] for uuid in uuids if uuid in self.index_of)

    def paths(self, name: str, attempt: int) -> AttemptPaths:
        """Where the files of an attempt are."""
        known = self.deck.by_name.get(name)
        return self.logs.paths(name, attempt, known is not None and known.spec.policy.merge_stderr)

    def learn(self, path: str) -> None:
        """Which GPU is which, from an attempt-N.json."""
        with contextlib.suppress(msgspec.ValidationError):
            said = msgspec.convert(read_record(path).get("gpus", []), list[_RecordedGpu])
            self.index_of |= {gpu.uuid: gpu.index for gpu in said}

    def indices(self) -> Mapping[str, int]:
        """GPUs by UUID, as one attempt-N.json for each has them: the driver is not asked. Reads a few small files."""
        if not self._learnt:
            self._learnt = True
            telling = (path for path, uuids in self._used() if not self.index_of.keys() >= uuids)
            for path in islice(telling, _MOST_READ):
                self.learn(path)
        return self.index_of

    def _used(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Of each attempt that was on GPUs its attempt-N.json, and their UUIDs."""
        deck = self.deck
        ended = [*((task.name, task.ended) for task in deck.tasks), *deck.past.ended.items()]
        lasting = ((task.name, (attempt,)) for task in deck.active.values() if (attempt := task.attempt()) is not None)
        for name, attempts in (*ended, *lasting):
            for each in attempts:
                if each.gpus:
                    yield self.paths(name, each.number).json, frozenset(each.gpus)

    def edits(self) -> FilePlan | None:
        """What the file says other than when the deck took it last; None: nobody knows what it said then."""
        from ..live.plan import make_plan
        from ..opening import taken

        content = None if self.state is None else taken.load(self.state.path)
        if self.state is None or content is None:
            return None
        gpus = simulated(self.file.settings)
        with contextlib.suppress(TaskFileError):
            old = load_as_run(
                self.file.path, self.options, gpus, self.facts, self.journal, self.environment, [], content=content
            )
            read = _Read(self.state, self.holder, self.elsewhere, self.facts, self.journal)
            return make_plan(_replayed(old, read, told=True)[0], old, self.file, self.file.digest)
        return None

    def select(self, selectors: Sequence[str]) -> list[Task]:
        """The tasks that any of *selectors* means, in file order; without selectors all of them. Raises UsageError
        for a name, tag or param that none has; that none is in a state now is an answer."""
        if not selectors:
            return list(self.deck.tasks)
        return select(self.deck, selectors, self.indices() if "gpu:" in " ".join(selectors) else self.index_of)


def _uuids_of(task: Task) -> tuple[str, ...]:
    attempt = task.attempt()
    last = task.ended[-1] if task.ended else None
    return attempt.gpus if attempt is not None else last.gpus if last is not None else ()


def open_offline(path: str, given: RunOptions, environ: Mapping[str, str]) -> Offline:
    """Read a deck. Its GPUs are unknown, except simulated ones; nothing asks the driver.

    *given* goes before the options that the newest run was started with; its profile and name say which state.
    Raises EngineUnavailableError (a newer gpudeck's state, another host's, no permission) and, where the deck has never
    been started, TaskFileError.
    """
    settings, broken = settings_of(path, given)
    read = _read(find_own_state(path, settings.state_dir, given))
    options = holding("look", read.journal, given)
    kept = None if read.state is None else load_environment(read.state.path)
    file, warnings = None, list(read.warnings)
    unfinished = read.journal.unfinished
    # What was set for a run that is over need not fit the file any more.
    ways = [options] if unfinished or options.set == given.set else [options, replace(options, set=given.set)]
    for options in ways if not broken else ():
        try:
            asked = settings if options == given else load_settings(path, options)
            file = load_as_run(
                path,
                options,
                simulated(asked),
                read.facts,
                read.journal,
                kept or base_environment(environ),
                warnings,
            )
            broken = ""
            chosen = file.selected is not None and not unfinished
            newer = with_newcomers(options, file, _known(path, options, asked, read)) if chosen else options
            if newer != options:
                options = newer
                file = load_as_run(
                    path, options, simulated(asked), read.facts, read.journal, kept or base_environment(environ), []
                )
            break
        except TaskFileError as error:
            broken = str(error)
    if file is None:
        if not read.begun:
            raise TaskFileError(broken.splitlines())
        warnings.append(
            f"{first_of(broken)}; until the file is mended, tasks are shown as far as the journal knows them"
        )
        file = file_despite(path, options, settings, read.facts)
    deck, logs = _replayed(file, read, told=not broken)
    return Offline(
        deck,
        file,
        read.state,
        logs,
        read.holder,
        read.elsewhere,
        read.facts,
        read.journal,
        options,
        unfinished=unfinished,
        broken=broken,
        damage=read.damage,
        warnings=[*file.warnings, *warnings],
        submitted=[] if read.holder is not None else submitted(file, read.journal),
        index_of={gpu.uuid: gpu.index for gpu in deck.gpus.values()},
        environment=kept or base_environment(environ),
    )


def _known(path: str, options: RunOptions, settings: DeckSettings, read: _Read) -> set[str]:
    """Tasks of the file as the deck took it last; none where nobody knows."""
    from ..opening import taken

    content = None if read.state is None else taken.load(read.state.path)
    with contextlib.suppress(TaskFileError):
        if content is not None:
            gpus, everything = simulated(settings), replace(options, only=(), exclude=(), limit=None, also=())
            environ = base_environment(os.environ)
            old = load_as_run(path, everything, gpus, read.facts, read.journal, environ, [], content=content)
            return {spec.name for spec in old.tasks}
    return set()


@dataclass(frozen=True, slots=True)
class _Read:
    """What the state folder tells."""

    state: StateDir | None = None
    holder: Holder | None = None
    elsewhere: str = ""
    facts: Sequence[Fact] = ()
    journal: Recorded = field(default_factory=Recorded)
    damage: str = ""

    @property
    def begun(self) -> bool:
        """An engine has opened the deck, though it may have been killed before it wrote a fact."""
        return bool(self.facts) or (self.state is not None and os.path.exists(self.state.db))

    @property
    def warnings(self) -> tuple[str, ...]:
        count = len(self.facts)
        told = "what its first fact tells" if count == 1 else f"what its first {count} facts tell"
        return (f"deck.db is damaged ({self.damage}): shown is {told}",) * bool(self.damage)


def _read(state: StateDir | None) -> _Read:
    if state is None:
        return _Read()
    holder = held_by(state.path)
    elsewhere = "" if holder is not None else state.left_elsewhere()
    facts, damage = look_at(state.db)
    return _Read(state, holder, elsewhere, facts, recorded(facts), damage)


def _replayed(file: DeckFile, read: _Read, *, told: bool) -> tuple[Deck, LogFolder]:
    settings = file.settings
    gpus = core_gpus(settings, simulated(settings))
    deck = build(file, gpus=gpus, cores=host.cores(), on_cpu=settings.gpus == "none")
    if read.state is not None and read.journal.lasting:
        from ..opening import kept  # of use only where something may run

        kept.take_back(deck, kept.load(read.state.path, read.journal.lasting_tokens), read.journal)
    replay(deck, read.facts)
    try:
        former = read.state.former_log_dirs(os.path.dirname(file.path), settings.log_dir) if read.state else ()
        logs = LogFolder(settings.log_dir, (spec.name for spec in file.tasks), former)
        for task in deck.tasks:
            task.attempts = task.attempts or logs.highest(task.name)
    except OSError as error:
        raise EngineUnavailableError(f"log_dir {settings.log_dir} cannot be read: {error.strerror}") from error
    stand_in_for_left_out(deck, logs, file)
    if told and deck.run.number:
        derive(deck)
    return deck, logs
