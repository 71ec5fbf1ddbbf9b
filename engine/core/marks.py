"""Which finished tasks are changed or stale: sets that follow every move and every success, without scans.

A gate counts the finished tasks that a newer success would make stale, so that the usual success, which has none, costs
one addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .gates import Gate
from .phases import FINAL, Cached, Succeeded
from .task import Task


@dataclass(slots=True, eq=False)
class Marks:
    """Flags beside the phase, by task index. Only of tasks that the run's selection has."""

    changed: set[int] = field(default_factory=set[int])
    stale: set[int] = field(default_factory=set[int])
    touched: set[int] = field(default_factory=set[int])
    """Tasks of which a flag (held, too) has come or gone since whoever shows them emptied this."""

    def follow(self, task: Task) -> None:
        """Bring the flags of one task up to date."""
        stale = is_outdated(task)
        current = task.selected and not stale and isinstance(task.phase, (Succeeded, Cached))
        if current is not task.current:
            task.current = current
            for gate in task.gates:
                gate.current += 1 if current else -1
        self._set(self.changed, task.index, wanted=differs(task))
        self._set(self.stale, task.index, wanted=stale)

    def _set(self, marked: set[int], index: int, *, wanted: bool) -> None:
        if wanted is not (index in marked):
            (marked.add if wanted else marked.discard)(index)
            self.touched.add(index)

    def succeeded(self, task: Task, wall: float, tasks: Sequence[Task]) -> None:
        """A task succeeded at *wall*: what is behind its gates builds on something older."""
        for first in task.feeds:
            gate: Gate | None = first
            while gate is not None and wall > gate.latest_success:
                gate.latest_success = wall
                for index in gate.dependents if gate.current else ():
                    if tasks[index].current:
                        self.follow(tasks[index])
                gate = gate.feeds_gate

    def recount(self, tasks: Iterable[Task]) -> None:
        """Work everything out anew, once, after a replay."""
        for task in tasks:
            if isinstance(task.phase, FINAL):
                self.follow(task)
        self.touched.clear()


def differs(task: Task) -> bool:
    """Whether a finished task's result is of other work than the task file now says."""
    return task.selected and is_of_other_work(task)


def is_of_other_work(task: Task) -> bool:
    """The same, also of a task that the run leaves out: nobody asks for it to run again, but its result is outdated."""
    outdated = bool(task.result) and task.result != task.spec.fingerprint
    return outdated and not task.gone and isinstance(task.phase, FINAL)


def is_outdated(task: Task) -> bool:
    """Whether something that a finished task builds on has succeeded again since."""
    if not task.selected or not isinstance(task.phase, (Succeeded, Cached)):
        return False
    return any(gate.latest_success > task.done_wall for gate in task.gates)
