"""A deck looked at without an engine: nothing is locked, made or changed, and an engine may run it meanwhile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Literal

import msgspec

from ..adapters import host
from ..adapters.processes import record
from ..adapters.state.home import original_of
from ..adapters.state.lock import Holder, held_by, this_machine
from ..attempts.record import RecordedGpu, read_record
from ..core.apply import derive
from ..core.deck import Task
from ..core.gpu_names import indices
from ..core.spec import DeckSettings, alike
from ..errors import TaskFileError
from ..logs.files import AttemptPaths
from ..taskfile.load import load_settings
from ..taskfile.options import RunOptions
from ..taskfile.source import Source, digest_of, read_source
from . import handover
from .cluster import Sent, submitted
from .gpus import unasked_gpus
from .loading import Loaded, Past, as_taken, load, past_in, restored
from .states import find_own_state, settings_said

Standing = Literal["runs", "ended", "gone", "unknown"]
"""What became of an attempt that has not ended as far as the journal knows."""


_MOST_READ = 64
"""So many attempt-N.json at most are read to find out which GPU is which: what they lacked, others may lack too."""


class OfflineDeck:
    """A deck as its file and its state folder tell it."""

    def __init__(
        self, loaded: Loaded, holder: Holder | None, *, broken: str = "", edited: Loaded | None = None
    ) -> None:
        """*holder*: who has the deck's lock; None: no engine runs it. *broken*: what is wrong with the task file, a
        line each; then the deck is as it took its file last. So is that of an unfinished run; *edited*: what its file
        says by now, where that is something else. Raises EngineUnavailableError."""
        past = loaded.past
        self.loaded = loaded
        self.holder = holder
        self.broken = broken
        self.edited = edited
        self.file, self.options, self.environment = loaded.file, loaded.options, loaded.environment
        self.state, self.facts, self.journal, self.damage = past.state, past.facts, past.told, past.damage
        self.unfinished = past.told.unfinished
        """The newest run has not ended: the next start goes on with it."""
        self.deck, _, self.logs = restored(loaded)
        self.elsewhere = "" if past.state is None or holder is not None else past.state.left_elsewhere()
        """What to say where no engine runs it and its tasks were left on another machine; "" otherwise."""
        self.submitted: Sequence[Sent] = [] if holder is not None else submitted(loaded.file, past.told)
        """Tasks that Slurm was given and no engine has taken up."""
        self._original = original_of(past.state.path) if past.state is not None and past.told.lasting else ""

    @property
    def warnings(self) -> list[str]:
        """Those of the file first."""
        count = len(self.facts)
        told = "what its first fact tells" if count == 1 else f"what its first {count} facts tell"
        damage = f"deck.db is damaged ({self.damage}): shown is {told}" if self.damage else ""
        shown = "until the file is mended, tasks are shown as the deck took them last"
        broken = f"{first_of(self.broken)}; {shown}" if self.broken else ""
        edited = "the task file has changed and counts as it was before: `gpudeck apply` takes it up" * self.has_edits
        return [*self.file.warnings, *filter(None, [damage, self.loaded.trouble, broken, edited])]

    @property
    def has_edits(self) -> bool:
        """The file says other than the unfinished run has it."""
        if self.edited is None:
            return False
        had, has = self.file, self.edited.file
        same = len(had.tasks) == len(has.tasks) and all(map(alike, had.tasks, has.tasks))
        return not same or had.settings != has.settings

    @property
    def restarted(self) -> bool:
        """Nothing that ran can run any more: the box was restarted, or this is a copy of the deck that runs it."""
        return self._original != "" or self.deck.run.boot_id not in ("", host.boot_id())

    @property
    def gone(self) -> list[str]:
        """Tasks that have run and that the file no longer has."""
        names = dict.fromkeys(task for task, _ in self.journal.starts)
        return [name for name in names if name not in self.deck.by_name]

    def standing(self, token: str) -> Standing:
        """What the record of an attempt tells, which outlives the engine. Reads a small file."""
        if self.state is None:
            return "unknown"
        if self._original:
            return "gone"
        found = self._record(token)
        if found.end or found.void:
            return "ended"
        attempt = self.deck.active[token].attempt() if token in self.deck.active else None
        if not found.pid or self.elsewhere or (attempt is not None and attempt.job):
            return "unknown"  # of a job on another node its cluster would have to be asked
        if self.restarted:
            return "gone"
        if attempt is not None and attempt.pid_ns not in (0, this_machine().pid_ns):
            return "unknown"
        return "runs" if found.living() is not None else "gone"

    def end_of(self, token: str) -> str:
        """The exit code of an attempt whose record tells it, as written; "" where none does."""
        return self._record(token).end

    def lasted_s(self, token: str) -> float | None:
        """How long an attempt took whose record tells its end; None where none does."""
        found = self._record(token)
        return round(found.end_uptime_s - found.uptime_s, 3) if found.end else None

    def _record(self, token: str) -> record.Record:
        return record.Record() if self.state is None else record.read(os.path.join(self.state.attempts, token))

    def gpus_of(self, task: Task) -> tuple[int, ...]:
        """Indices of the GPUs of a task's newest attempt, as far as they are known."""
        attempt = task.attempt() or (task.ended[-1] if task.ended else None)
        return () if attempt is None else indices(attempt.gpus, self.index_of)

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """GPUs by UUID: the deck's, and those of attempts as one attempt-N.json for each has them, since the driver is
        not asked. Reads a few small files."""
        known = {gpu.uuid: gpu.index for gpu in self.deck.gpus.values()}
        telling = (self.paths(name, number).json for name, number, uuids in self._used() if not known.keys() >= uuids)
        for path in islice(telling, _MOST_READ):
            with contextlib.suppress(msgspec.ValidationError):
                said = msgspec.convert(read_record(path).get("gpus", []), list[RecordedGpu])
                known |= {gpu.uuid: gpu.index for gpu in said}
        return known

    def _used(self) -> Iterator[tuple[str, int, frozenset[str]]]:
        """Attempts that were on GPUs, and the UUIDs of these."""
        deck = self.deck
        ended = [*((task.name, task.ended) for task in deck.tasks), *deck.past.ended.items()]
        lasting = ((task.name, (attempt,)) for task, attempt in deck.lasting)
        for name, attempts in (*ended, *lasting):
            for each in attempts:
                if each.gpus:
                    yield name, each.number, frozenset(each.gpus)

    def paths(self, name: str, attempt: int) -> AttemptPaths:
        """Where the files of an attempt are."""
        known = self.deck.by_name.get(name)
        return self.logs.paths(name, attempt, known is not None and known.spec.policy.merge_stderr)


def open_offline(path: str, given: RunOptions, environ: Mapping[str, str]) -> OfflineDeck:
    """The deck as its last run left it, phases that follow from others (queued, blocked) worked out as an engine would.
    Its GPUs are unknown, except simulated ones; nothing asks the driver.

    *given* goes before the options that the newest run was started with; its profile and name say which state.
    Raises EngineUnavailableError (a newer gpudeck's state, another host's, no permission) and, where the deck has never
    been started, TaskFileError.
    """
    source = None
    with contextlib.suppress(TaskFileError):
        source = read_source(path)
    settings, broken = settings_said(source or path, given)
    past, holder = _past(path, given, settings)
    environment = past.environment

    def loaded_from(source: Source | None) -> Loaded:
        if source is None:
            raise TaskFileError(broken.splitlines())
        return load(
            source,
            given,
            environ,
            past=past,
            purpose="look",
            environment=environment,
            gpus_of=unasked_gpus,
            lenient=True,
        )

    now: Loaded | None = None
    try:
        now = loaded_from(None if broken else source)
        broken = ""
    except TaskFileError as error:
        broken = str(error)
        if past.state is None or handover.kept_file(past.state.path) is None:
            raise
    loaded = None
    content = as_taken(past, "act") if now is not None or past.state is None else handover.kept_file(past.state.path)
    if content is not None and (now is None or digest_of(content) != now.file.digest):
        try:
            loaded = loaded_from(read_source(path, content))
        except TaskFileError:  # what was taken cannot be used any more
            if now is None:
                raise
    shown = loaded or now
    assert shown is not None
    offline = OfflineDeck(shown, holder, broken=broken, edited=now if loaded else None)
    if offline.deck.run.number:
        derive(offline.deck)
    return offline


def open_as_start(path: str, given: RunOptions, environ: Mapping[str, str]) -> OfflineDeck:
    """The deck as a headless start would open it now, on the box's GPUs: of an unfinished run under what that was
    started with. Raises DeckError as the start would."""
    source = read_source(path)
    past, holder = _past(path, given, load_settings(source, given))
    environment = past.environment if past.told.unfinished else None
    return OfflineDeck(load(source, given, environ, past=past, environment=environment), holder)


def _past(path: str, given: RunOptions, settings: DeckSettings) -> tuple[Past, Holder | None]:
    state = find_own_state(path, settings.state_dir, given)
    holder = None if state is None else held_by(state.path)
    return past_in(state), holder


def first_of(broken: str) -> str:
    """The first of several problems, on one line."""
    lines = broken.splitlines()
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more: `gpudeck check`)"
