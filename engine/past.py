"""What earlier engines left: a run's environment, ends that were not completed, states that selectors mean."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .adapters import proc, record
from .adapters.statedir import StateDir, load_environment, save_environment
from .core.build import stand_in
from .core.deck import Deck, Task
from .core.events import (
    AttemptEnded,
    AttemptStarting,
    Fact,
    RunEnded,
    RunStarted,
    StartRevoked,
    TaskCached,
    TaskCancelled,
)
from .core.readiness import success_of
from .core.selector import Facts, Subject
from .core.spec import DeckFile, TaskSpec
from .environment import base_environment
from .errors import UsageError
from .logs.files import LogFolder
from .logs.outputs import outputs_exist
from .ports import GpuInfo

OLD_RECORD_S = 3600.0
"""A wrapper that was late for its start has come and gone by then."""
_TELLING = ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH")

Unsettled = tuple[AttemptEnded, AttemptStarting]
"""An end in the journal of which the rest (attempt-N.json, dropping the record) may not have been done."""


class History:
    """The journal by task, for selectors such as `state:failed`."""

    def __init__(self, facts: Iterable[Fact], gpus: Sequence[GpuInfo]) -> None:
        self._index = {gpu.uuid: str(gpu.index) for gpu in gpus}
        self._state: dict[str, str] = {}
        self._reason: dict[str, str] = {}
        self._gpus: dict[str, tuple[str, ...]] = {}
        for fact in facts:
            match fact:
                case AttemptStarting():
                    self._state[fact.task], self._gpus[fact.task] = "running", fact.gpus
                case AttemptEnded():
                    self._state[fact.task], self._reason[fact.task] = fact.next, fact.outcome.reason
                case TaskCached() | TaskCancelled():
                    self._state[fact.task] = "cached" if isinstance(fact, TaskCached) else "cancelled"
                case _:
                    pass

    def look(self, spec: TaskSpec) -> Subject:
        """A task as the journal leaves it."""
        uuids = self._gpus.get(spec.name, ())
        gpus = [name for uuid in uuids for name in (uuid, self._index.get(uuid, "")) if name]
        state = self._state.get(spec.name, "waiting")
        return Facts(spec.name, spec.tags, spec.params, (state,), self._reason.get(spec.name, ""), gpus)


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


def run_environment(state: StateDir, *, unfinished: bool, environ: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """A run keeps the environment that it was started with, whichever engine goes on with it.

    Returns it, and a warning where the caller's differs in what decides which programs run.
    """
    fresh = base_environment(environ)
    kept = load_environment(state.path) if unfinished else None
    if kept is None:
        save_environment(state.path, fresh)
        return fresh, ""
    other = [name for name in _TELLING if kept.get(name) != fresh.get(name)]
    if not other:
        return kept, ""
    names = ", ".join(other)
    return kept, f"tasks keep the environment of the run's start; yours has another {names}: see gpudeck env --refresh"


def stand_in_for_left_out(deck: Deck, logs: LogFolder) -> None:
    """Tasks that --only leaves out count for those that need them: as done, or as not to be had."""
    for task in deck.tasks:
        if not task.selected and task.feeds:
            task.left_out_done = _is_done(deck, task, logs)
            stand_in(deck, task, good=task.left_out_done)


def _is_done(deck: Deck, task: Task, logs: LogFolder) -> bool:
    outputs = task.spec.outputs
    if success_of(deck, task) is not None:
        return outputs_exist(outputs)
    unknown = task.name not in deck.known and not logs.attempted(task.name)
    return bool(outputs) and unknown and outputs_exist(outputs)


def refuse_strangers(attempts_dir: str, file: DeckFile, facts: Sequence[Fact]) -> None:
    """Attempts of this deck that run and that the deck does not know: it would start them a second time.

    Raises UsageError that names each with its session leader.
    """
    lines = [*_gone_but_running(attempts_dir, file, facts), *_unknown_but_running(attempts_dir, file, facts)]
    if lines:
        raise UsageError("\n".join(lines))


def _unknown_but_running(attempts_dir: str, file: DeckFile, facts: Sequence[Fact]) -> Iterator[str]:
    """The journal was lost, or cut short by damage: only the record tells."""
    known = {fact.token for fact in facts if isinstance(fact, AttemptStarting)}
    for token in sorted(set(os.listdir(attempts_dir)) - known):
        wrapper = record.read(os.path.join(attempts_dir, token)).wrapper
        if wrapper is not None and proc.is_live(wrapper.pid, wrapper.start_ticks):
            yield (
                f"{file.shown}: an attempt still runs (pid {wrapper.pid}) that the journal does not know: wait for its "
                f"end, or end it: kill -- -{wrapper.pid}"
            )


def _gone_but_running(attempts_dir: str, file: DeckFile, facts: Sequence[Fact]) -> Iterator[str]:
    """A task that the file no longer has: its slots are not free, and a renamed one would run twice."""
    names = {spec.name for spec in file.tasks}
    starts: dict[tuple[str, int], AttemptStarting] = {}
    for fact in facts:
        if isinstance(fact, AttemptStarting) and fact.task not in names:
            starts[fact.task, fact.attempt] = fact
        elif isinstance(fact, (AttemptEnded, StartRevoked)):
            starts.pop((fact.task, fact.attempt), None)
    wrappers = ((start.task, record.read(os.path.join(attempts_dir, start.token)).wrapper) for start in starts.values())
    for task, wrapper in wrappers:
        if wrapper is not None and proc.is_live(wrapper.pid, wrapper.start_ticks):
            yield (
                f"{file.shown}: {task} still runs (pid {wrapper.pid}) and is not in the file any more: put it back "
                f"until it has ended, or end it: kill -- -{wrapper.pid}"
            )
