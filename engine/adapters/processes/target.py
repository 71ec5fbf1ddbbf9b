"""An attempt as the stop sequence sees it."""

from __future__ import annotations

from collections.abc import Callable

from . import proc
from .family import Attempt, Members
from .proc import Stat
from .trees import Trees


class AttemptTree:
    """`stopping.Target` for an attempt."""

    def __init__(self, attempt: Attempt, trees: Trees, *, children_files: bool) -> None:
        self._attempt = attempt
        self._trees = trees
        self._children_files = children_files

    @property
    def group(self) -> int:
        return self._attempt.pid

    @property
    def leader_alone(self) -> bool:
        return self._attempt.relayed

    def wrapper_lives(self) -> bool:
        attempt = self._attempt
        return attempt.wrapper is not None and proc.is_live(*attempt.identity)

    def commands(self) -> dict[int, int]:
        pid = self._attempt.pid
        if self._children_files:
            found = [process for child in proc.children(pid) if (process := proc.stat(child)) is not None]
        else:
            found = list(proc.everyone().values())
        # Between its fork and its exec the command still has the wrapper's handlers, and loses what they catch.
        return {p.pid: p.start_ticks for p in found if p.ppid == pid and p.executed}

    def members(self, then: Callable[[dict[int, Stat]], None]) -> None:
        def told(members: Members) -> None:
            then(members.signalled)
            if not members.signalled:
                self._trees.look(self._attempt)

        self._trees.members(self._attempt, told)
