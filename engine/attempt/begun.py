"""What attempts were started with, kept until their end is written."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from ..core.deck import Deck, Task
from ..core.spec import TaskSpec
from ..logs.files import AttemptPaths, LogFolder
from ..logs.outputs import OutputStamp
from ..logs.secrets import masked_command
from .box import Box
from .starts import Started


@dataclass(slots=True)
class Begun:
    """One attempt's start."""

    spec: TaskSpec
    paths: AttemptPaths
    started_wall: float
    before: Mapping[str, OutputStamp] | None
    """State of its outputs at its start; None: an earlier engine started it, and attempt-N.json tells."""
    oom_kills: int
    """The kernel's count of kills for want of memory when it started."""
    resumed: bool = False
    argv: tuple[str, ...] = ()


class BegunAttempts:
    """By token. All methods on the loop's thread."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        self._begun: dict[str, Begun] = {}
        self._resumed: set[str] = set()
        """Tasks whose newest attempt went on from an earlier one."""
        self._kills = (box.now(), box.oom_kills())
        """When the kernel's count was last looked at, and what it was."""

    def add(self, start: Started) -> None:
        """A wrapper exists."""
        made = start.made
        (self._resumed.add if made.resumed else self._resumed.discard)(start.task.name)
        self._begun[start.token] = Begun(
            start.task.begun_spec,
            made.paths,
            made.started_wall,
            made.before,
            self._oom_kills(),
            made.resumed,
            made.shown,
        )

    def of(self, token: str, task: Task, attempt: int) -> Begun:
        """What is known of an attempt, also of one that an earlier engine started."""
        begun = self._begun.get(token)
        if begun is None:
            current = task.attempt()
            wall = current.wall if current is not None else 0.0
            spec = task.begun_spec
            paths = self._logs.paths(task.name, attempt, spec.policy.merge_stderr)
            begun = self._begun[token] = Begun(spec, paths, wall, None, self._oom_kills())
        return begun

    def pop(self, token: str) -> Begun | None:
        """Forget an attempt; None: nobody has asked for it since an earlier engine started it."""
        return self._begun.pop(token, None)

    def resumed(self, task: str) -> bool:
        """Whether a task's newest attempt went on from an earlier one; False where an earlier engine started it."""
        return task in self._resumed

    def command(self, token: str) -> tuple[str, bool]:
        """What an attempt executes, and whether it resumes an earlier one; ("", False) when it is over already."""
        begun = self._begun.get(token)
        return ("", False) if begun is None else (shlex.join(masked_command(begun.argv)), begun.resumed)

    def paths(self, task: str, attempt: int) -> AttemptPaths:
        """Where the logs of any attempt are, as the task is now."""
        known = self._deck.by_name.get(task)
        return self._logs.paths(task, attempt, known is not None and known.spec.policy.merge_stderr)

    def _oom_kills(self) -> int:
        """The kernel's count of kills for want of memory, at most a second old."""
        now = self._box.now()
        if now - self._kills[0] > 1.0:
            self._kills = (now, self._box.oom_kills())
        return self._kills[1]
