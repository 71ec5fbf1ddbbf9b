"""The journal task by task, as selectors ask for it before there is a deck."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.events import (
    AttemptEnded,
    AttemptRunning,
    AttemptStarting,
    AttemptSubmitted,
    Fact,
    RunEnded,
    StartRevoked,
    TakenBack,
    TaskAccepted,
    TaskCached,
    TaskCancelled,
    TaskHeld,
    TaskRetried,
)
from ..core.selector import Facts, Subject
from ..core.spec import TaskSpec
from ..ports import GpuInfo

_FINISHED = ("succeeded", "cached", "failed", "cancelled")


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
        self._pending: set[str] = set()
        """Tasks whose job a cluster has and has not begun."""
        self._before: dict[tuple[str, str], str] = {}
        """States before what was asked for, by task and act: it may be taken back."""
        for fact in facts:
            self._read(fact)

    def _read(self, fact: Fact) -> None:
        match fact:
            case AttemptStarting():
                self._gpus[fact.task] = fact.gpus
                self._move(fact.task, "starting" if fact.where else "running")
            case AttemptSubmitted():
                self._pending.add(fact.task)
            case AttemptRunning():
                self._move(fact.task, "running")
            case StartRevoked():
                self._move(fact.task, "queued")
            case AttemptEnded():
                self._pending.discard(fact.task)
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

    def _move(self, task: str, state: str) -> None:
        self._state[task] = state
        self._pending.discard(task)

    def look(self, spec: TaskSpec) -> Subject:
        """A task as the journal leaves it."""
        uuids = self._gpus.get(spec.name, ())
        gpus = [name for uuid in uuids for name in (uuid, self._index.get(uuid, "")) if name]
        state = self._state.get(spec.name, "waiting")
        changed = state in _FINISHED and self._result.get(spec.name, spec.fingerprint) != spec.fingerprint
        marks = (("pending", spec.name in self._pending), ("held", spec.name in self._held), ("changed", changed))
        states = [state, *(mark for mark, borne in marks if borne)]
        return Facts(spec.name, spec.tags, spec.params, states, self._reason.get(spec.name, ""), gpus)
