"""What earlier engines left: a run's environment, ends that were not completed, states that selectors mean."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..adapters import record
from ..adapters.kept_environment import load_environment, save_environment
from ..adapters.statedir import StateDir
from ..attempt.environment import base_environment
from ..core.build import stand_in
from ..core.deck import Deck, Task
from ..core.events import (
    AttemptEnded,
    AttemptStarting,
    Fact,
    OptionsChanged,
    RunEnded,
    RunStarted,
    StartRevoked,
    TakenBack,
    TaskAccepted,
    TaskCached,
    TaskCancelled,
    TaskHeld,
    TaskRetried,
)
from ..core.readiness import success_of
from ..core.selector import Facts, Subject
from ..core.spec import DeckFile, TaskSpec
from ..errors import UsageError
from ..logs.beside import Beside
from ..logs.files import LogFolder
from ..logs.outputs import outputs_exist
from ..ports import GpuInfo

OLD_RECORD_S = 3600.0
"""A wrapper that was late for its start has come and gone by then."""
_FINISHED = ("succeeded", "cached", "failed", "cancelled")
_TELLING = ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH")

Unsettled = tuple[AttemptEnded, AttemptStarting]
"""An end in the journal of which the rest (attempt-N.json, dropping the record) may not have been done."""


class History:
    """The journal by task, for selectors such as `state:failed` and `state:changed`."""

    def __init__(self, facts: Iterable[Fact], gpus: Sequence[GpuInfo]) -> None:
        self._index = {gpu.uuid: str(gpu.index) for gpu in gpus}
        self._state: dict[str, str] = {}
        self._reason: dict[str, str] = {}
        self._gpus: dict[str, tuple[str, ...]] = {}
        self._result: dict[str, str] = {}
        """Fingerprints of what results are of."""
        self._held: set[str] = set()
        self._before: dict[tuple[str, str], str] = {}
        """States before what was asked for, by task and act: it may be taken back."""
        for fact in facts:
            self._read(fact)

    def _read(self, fact: Fact) -> None:
        match fact:
            case AttemptStarting():
                self._state[fact.task], self._gpus[fact.task] = "running", fact.gpus
            case AttemptEnded():
                self._state[fact.task], self._reason[fact.task] = fact.next, fact.outcome.reason
                if not fact.never_ran:
                    self._result[fact.task] = fact.fingerprint
            case TaskCached():
                self._state[fact.task], self._result[fact.task] = "cached", fact.fingerprint
            case TaskCancelled() | TaskRetried():
                if fact.act:
                    self._before[fact.task, fact.act] = self._state.get(fact.task, "waiting")
                self._state[fact.task] = "cancelled" if isinstance(fact, TaskCancelled) else "queued"
            case TakenBack():
                self._state[fact.task] = self._before.pop((fact.task, fact.act), "waiting")
            case TaskAccepted():
                self._result[fact.task] = fact.fingerprint
            case TaskHeld():
                (self._held.add if fact.held else self._held.discard)(fact.task)
            case RunEnded():
                self._held.clear()
            case _:
                pass

    def look(self, spec: TaskSpec) -> Subject:
        """A task as the journal leaves it."""
        uuids = self._gpus.get(spec.name, ())
        gpus = [name for uuid in uuids for name in (uuid, self._index.get(uuid, "")) if name]
        state = self._state.get(spec.name, "waiting")
        changed = state in _FINISHED and self._result.get(spec.name, spec.fingerprint) != spec.fingerprint
        marks = (("held", spec.name in self._held), ("changed", changed))
        states = [state, *(mark for mark, borne in marks if borne)]
        return Facts(spec.name, spec.tags, spec.params, states, self._reason.get(spec.name, ""), gpus)


def ran_on_gpus(facts: Iterable[Fact]) -> bool:
    """Whether real GPUs have been used."""
    return any(
        isinstance(fact, AttemptStarting) and any(not uuid.startswith("SIM-") for uuid in fact.gpus) for fact in facts
    )


def unsettled(attempts_dir: str, facts: Sequence[Fact]) -> list[Unsettled]:
    """Ends on disk whose record still stands: a crash came between the fact and what follows from it."""
    left = set(os.listdir(attempts_dir))
    if not left:
        return []
    starts = {
        (fact.task, fact.attempt): fact for fact in facts if isinstance(fact, AttemptStarting) and fact.token in left
    }
    ends = [fact for fact in facts if isinstance(fact, AttemptEnded) and (fact.task, fact.attempt) in starts]
    return [(end, starts[end.task, end.attempt]) for end in ends]


def sweep_records(attempts_dir: str, keep: Iterable[str]) -> None:
    """Drop records that no attempt needs any more: of starts that came to nothing, long ago."""
    kept = set(keep)
    limit = time.time() - OLD_RECORD_S
    with os.scandir(attempts_dir) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name not in kept and entry.stat().st_mtime < limit:
                    os.unlink(entry.path)


def running_tasks(facts: Iterable[Fact]) -> frozenset[str]:
    """Tasks with an attempt that has not ended as far as the journal knows."""
    open_attempts: set[tuple[str, int]] = set()
    for fact in facts:
        if isinstance(fact, AttemptStarting):
            open_attempts.add((fact.task, fact.attempt))
        elif isinstance(fact, (AttemptEnded, StartRevoked)):
            open_attempts.discard((fact.task, fact.attempt))
    return frozenset(task for task, _ in open_attempts)


def run_is_unfinished(facts: Iterable[Fact]) -> bool:
    """Whether the newest run has still to end."""
    unfinished = False
    for fact in facts:
        if isinstance(fact, RunStarted):
            unfinished = True
        elif isinstance(fact, RunEnded):
            unfinished = False
    return unfinished


def run_environment(
    state: StateDir, *, keep: bool, environ: Mapping[str, str], service: bool = False
) -> tuple[Mapping[str, str], str]:
    """A run keeps the environment that it was started with, whichever engine goes on with it.

    *keep*: an unfinished run goes on. A *service* has no environment of its own that would be of use: it takes what is
    kept. Returns it, and a warning where the caller's differs in what decides which programs run.
    """
    fresh = base_environment(environ)
    kept = load_environment(state.path) if keep or service else None
    if kept is None:
        save_environment(state.path, fresh)
        return fresh, ""
    other = [name for name in _TELLING if kept.get(name) != fresh.get(name)]
    other += [name for name in ("CUDA_VISIBLE_DEVICES",) if name in kept and name not in fresh]
    if service or not other:
        return kept, ""
    names = ", ".join(other)
    return kept, f"tasks keep the environment of the run's start; yours has another {names}: see gpudeck env --refresh"


def stand_in_for_left_out(deck: Deck, logs: LogFolder) -> None:
    """Tasks that --only leaves out count for those that need them: as done, or as not to be had."""
    for task in deck.tasks:
        if not task.selected and task.feeds and not task.gone:
            task.left_out_done = is_done(deck, task, logs)
            stand_in(deck, task, good=task.left_out_done)


def is_done(deck: Deck, task: Task, logs: LogFolder) -> bool:
    """By its success under this name or another, or by outputs that nothing else can have left."""
    outputs = task.spec.outputs
    if success_of(deck, task) is not None:
        return outputs_exist(outputs)
    unknown = task.name not in deck.known and not logs.attempted(task.name)
    return bool(outputs) and unknown and outputs_exist(outputs) and not Beside(logs.dir).other_work(task.spec)


def refuse_strangers(
    attempts_dir: str, file: DeckFile, facts: Sequence[Fact], gone: frozenset[str] = frozenset()
) -> None:
    """Attempts of this deck that run and that the deck does not know: it would start them a second time. *gone*: tasks
    that the deck knows although the file does not have them any more.

    Raises UsageError that names each with its session leader.
    """
    lines = [*_gone_but_running(attempts_dir, file, facts, gone), *_unknown_but_running(attempts_dir, file, facts)]
    if lines:
        raise UsageError("\n".join(lines))


def _unknown_but_running(attempts_dir: str, file: DeckFile, facts: Sequence[Fact]) -> Iterator[str]:
    """The journal was lost, or cut short by damage: only the record tells."""
    known = {fact.token for fact in facts if isinstance(fact, AttemptStarting)}
    for token in sorted(set(os.listdir(attempts_dir)) - known):
        wrapper = record.read(os.path.join(attempts_dir, token)).wrapper
        if wrapper is not None and wrapper.living():
            yield (
                f"{file.shown}: an attempt still runs (pid {wrapper.pid}) that the journal does not know: wait for its "
                f"end, or end it: kill -- -{wrapper.pid}"
            )


def _gone_but_running(attempts_dir: str, file: DeckFile, facts: Sequence[Fact], gone: frozenset[str]) -> Iterator[str]:
    """A task that the file no longer has: its slots are not free, and a renamed one would run twice."""
    names = {*gone, *(spec.name for spec in file.tasks)}
    starts: dict[tuple[str, int], AttemptStarting] = {}
    for fact in facts:
        if isinstance(fact, AttemptStarting) and fact.task not in names:
            starts[fact.task, fact.attempt] = fact
        elif isinstance(fact, (AttemptEnded, StartRevoked)):
            starts.pop((fact.task, fact.attempt), None)
    wrappers = ((start.task, record.read(os.path.join(attempts_dir, start.token)).wrapper) for start in starts.values())
    for task, wrapper in wrappers:
        if wrapper is not None and wrapper.living():
            yield (
                f"{file.shown}: {task} still runs (pid {wrapper.pid}) and is not in the file any more: put it back "
                f"until it has ended, or end it: kill -- -{wrapper.pid}"
            )


def options_of(facts: Iterable[Fact]) -> str:
    """What the newest run was started with, as run_options.encode wrote it."""
    text = ""
    for fact in facts:
        if isinstance(fact, (RunStarted, OptionsChanged)):
            text = fact.options
    return text
