"""Whether a task's outputs are there and are a result of it: what files tell, and what the deck knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.deck import Deck, Task
from ..core.output_history import OutputAttempt
from ..core.readiness import outputs_doubt, success_of
from ..core.spec import TaskSpec
from ..logs.files import LogFolder
from ..logs.outputs import changed_wall, outputs_exist
from ..ports import OthersAt


@dataclass(frozen=True, slots=True)
class OutputsFound:
    """What files tell of a task's outputs."""

    exist: bool
    changed_wall: float = 0.0
    others: Sequence[OutputAttempt] = ()
    """Other decks' attempts at them."""
    attempted: bool = False
    """The task's log folder holds an attempt."""

    def doubt(self, deck: Deck, task: Task) -> str:
        """Why they are no result of the task, as the deck is now; "" where they are."""
        return outputs_doubt(deck, task, self.others, self.changed_wall, attempted=self.attempted)


def find_outputs(spec: TaskSpec, logs: LogFolder, others: OthersAt) -> OutputsFound:
    """Reads files. Any thread."""
    if not outputs_exist(spec.outputs):
        return OutputsFound(exist=False)
    return OutputsFound(True, changed_wall(spec.outputs), others(spec), logs.attempted(spec.name))


def is_done(deck: Deck, task: Task, logs: LogFolder, others: OthersAt) -> bool:
    """By its success under this name or another, or by outputs that nothing else can have left. Reads files."""
    if not task.spec.outputs:
        return success_of(deck, task) is not None
    found = find_outputs(task.spec, logs, others)
    return found.exist and not found.doubt(deck, task)
