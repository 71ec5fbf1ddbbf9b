"""What whoever applies a plan may choose, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .plan import FilePlan

Running = Literal["end", "restart", "keep"]
"""Of a task that runs as other work than the file now says. "end": it ends and is changed then; "restart": it is
stopped and starts as the file says; "keep": it ends, and its result counts as what the file says."""
Finished = Literal["rerun", "flag", "keep"]
"""Of a task that is finished as other work. "flag": it keeps its result and is marked as changed; "keep": its result
counts as what the file says."""


@dataclass(frozen=True, slots=True)
class Choices:
    running: Running = "end"
    finished: Finished = "rerun"
    tasks: Mapping[str, Running | Finished] = field(default_factory=dict[str, Running | Finished])
    """For single tasks, over the two above; one that does not fit where the task stands is passed over."""
    earlier: bool = False
    """Finished tasks that an edit of before has changed, and this one does not, keep their results, too."""
    asked: tuple[str, ...] = ()
    """Tasks that begin also where the deck has them already: an engine may have read them already."""
    begins: bool = True
    """Where the last run has ended, what is new begins the next."""
    digest: str = ""
    """Of the plan that was agreed to: another reading is refused. Empty: whatever the file says."""

    def for_running(self, name: str) -> Running:
        chosen = self.tasks.get(name)
        return chosen if chosen in ("end", "restart", "keep") else self.running

    def for_finished(self, name: str) -> Finished:
        chosen = self.tasks.get(name)
        return chosen if chosen in ("rerun", "flag", "keep") else self.finished


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done."""

    plan: FilePlan
    rerun: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    pause_s: float = 0.0
    """How long the engine's loop did nothing else."""
