"""What users asked for and how things stood before it, so that it can be taken back.

Facts name the act that they belong to, so that a replay knows the same acts, in whichever engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .events import Values
from .phases import Blocked, Cancelled, Phase, Queued, Waiting
from .task import Task

KEPT = 200
"""Acts that are remembered."""
KEPT_TASKS = 100_000
"""What the remembered acts change at most, the newest aside."""

RESTORED = (
    "act", "decided", "forced", "retries_used", "oom_ends", "free_requeues", "joined_requeues", "quarantine_requeues",
    "port_retries", "node_retries", "timeout_ends", "avoid", "again",
)  # fmt: skip
"""What of a task is put back as it was when a retry or a cancel is taken back."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A task that was taken up again, or cancelled while nothing of it ran: all that this changed."""

    phase: Phase
    held: bool
    settled_in: int
    restored: tuple[object, ...]
    """What it had of each of `RESTORED`."""
    given: Values | None = None
    """The values that it had, where it was given others."""


@dataclass(frozen=True, slots=True)
class Held:
    held: bool
    """Whether it was before."""


@dataclass(frozen=True, slots=True)
class Ranked:
    priority: int
    given: int


@dataclass(frozen=True, slots=True)
class Marked:
    """A GPU."""

    mark: str
    given: str


Before = Moved | Held | Ranked


@dataclass(slots=True, eq=False)
class Act:
    """One request of a user's."""

    verb: str
    """retry, cancel, hold, release, priority, pause, unpause; drain, take or enable. Empty until a fact has told."""
    halted: str
    """What had halted the run when it came; empty: nothing."""
    paused: str
    """Why the deck was paused when it came; empty: it was not."""
    tasks: dict[str, Before] = field(default_factory=dict[str, Before])
    gpus: dict[str, Marked] = field(default_factory=dict[str, Marked])
    paused_as: str = ""
    """Of pause: the reason given."""


class Acts:
    """The newest acts, oldest first."""

    __slots__ = ("_acts", "_count")

    def __init__(self) -> None:
        self._acts: dict[str, Act] = {}
        self._count = 0

    def get(self, name: str) -> Act | None:
        return self._acts.get(name)

    def __iter__(self) -> Iterator[Act]:
        return iter(self._acts.values())

    def begun(self, name: str, verb: str, *, halted: str, paused: str) -> Act | None:
        """The act that a fact belongs to, begun by its first fact; None for a fact that belongs to none."""
        if not name:
            return None
        act = self._acts.get(name)
        if act is None:
            act = self._acts[name] = Act(verb, halted, paused)
        act.verb = act.verb or verb
        return act

    def note(self, act: Act, task: str, before: Before) -> None:
        """Remember how a task stood. Only the first time in one act counts."""
        if task not in act.tasks:
            act.tasks[task] = before
            self._count += 1
        self._forget()

    def after(self, name: str) -> Iterator[Act]:
        """Acts that came later, newest first."""
        for later, act in reversed(self._acts.items()):
            if later == name:
                return
            yield act

    def _forget(self) -> None:
        while len(self._acts) > KEPT or (self._count > KEPT_TASKS and len(self._acts) > 1):
            oldest = self._acts.pop(next(iter(self._acts)))
            self._count -= len(oldest.tasks)


def moved(task: Task, given: Values | None = None) -> Moved:
    """How a task stands before it is taken up again or cancelled."""
    return Moved(task.phase, task.held, task.settled_in, tuple(getattr(task, name) for name in RESTORED), given)


def as_left(task: Task, name: str, before: Before) -> bool:
    """Whether a task is still as the act *name* left it."""
    match before:
        case Moved():
            return task.act == name and isinstance(task.phase, (Waiting, Queued, Blocked, Cancelled))
        case Held(held):
            return task.held is not held
        case Ranked(_, given):
            return task.priority == given
