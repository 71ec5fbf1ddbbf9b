"""To which attempt a process belongs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from . import proc
from .trees import Trees


class Everybody(Mapping[int, str]):
    """Pid -> token of every member of every attempt, read when asked.

    A look-up goes from the process up to the wrapper or orphan that it descends from: a few reads, however large the
    trees are. Going through all reads every tree.
    """

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def __getitem__(self, pid: int) -> str:
        me = os.getpid()
        found: list[proc.Stat] = []
        while pid > 1 and pid != me and (process := proc.stat(pid)) is not None:
            found.append(process)
            if token := self._trees.orphans.owner_of(process):
                self._trees.orphans.note(found, token)
                return token
            pid = process.ppid
        raise KeyError(found[0].pid if found else pid)

    def __iter__(self) -> Iterator[int]:
        for attempt in list(self._trees.attempts.values()):
            members = self._trees.descendants(attempt)
            yield from members.signalled
            yield from members.protected

    def __len__(self) -> int:
        return sum(1 for _ in self)
