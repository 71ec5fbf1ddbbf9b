"""A journal with a disk below it: what was not synced when the engine is killed is forgotten, but for what had just
gone out."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence

from gpudeck.engine.core.events import Fact
from gpudeck.engine.ports import Done, JournalBrokenError
from tests.sim.box import Disk, Simulated

_SYNC_S = (0.0002, 0.05)
_LAZY_S = 0.1


class SimJournal:
    """`ports.Journal`. Writes that come while one is under way share the next."""

    damage = ""

    def __init__(self, box: Simulated, disk: Disk) -> None:
        self._box = box
        self._disk = disk
        self.count = len(disk.facts)
        """Facts on disk or on the way there."""
        self._waiting: list[tuple[list[Fact], bool, Done]] = []
        self._going: list[tuple[list[Fact], bool, Done]] = []
        self._backlog: list[Fact] = []
        self._told_full = False
        self._planned = False
        self._dead = self._closed = False
        self.on_disk: Callable[[bool, str], None] = lambda _full, _why: None

    def load(self) -> Iterator[Fact]:
        return iter(list(self._disk.facts))

    def submit(self, facts: Sequence[Fact], *, durable: bool, done: Done | None = None, keep: bool = False) -> None:
        if self._closed:
            raise JournalBrokenError("the journal is closed")
        self.count += len(facts)
        self._waiting.append((list(facts), keep, done or (lambda _: None)))
        if durable:
            self._soon(self._box.random.uniform(*_SYNC_S))
        else:
            self._soon(_LAZY_S)

    def close(self) -> None:
        """What is pending is written first."""
        while not self._closed and not self._dead and (self._waiting or self._going):
            self._begin()
            self._commit()
        self._closed = True

    def kill(self) -> None:
        """With the engine. A write that was going out may have got there, whole."""
        if self._going and not self._disk.full and self._box.random.random() < 0.5:
            for facts, _, _ in self._going:
                self._disk.facts += facts
        self._dead = True

    @property
    def idle(self) -> bool:
        """All is on disk."""
        return not (self._waiting or self._going or self._backlog)

    @property
    def behind(self) -> bool:
        """The disk takes nothing, or has not yet been given what it did not take."""
        return self._disk.full or bool(self._backlog)

    def look(self) -> None:
        """The disk may have space again."""
        if self._told_full and not self._disk.full and not self._dead:
            self._disk.facts += self._backlog
            self._backlog = []
            self._told_full = False
            self.on_disk(False, "")

    def _soon(self, seconds: float) -> None:
        if not self._going and not self._planned:
            self._planned = True
            self._box.after(seconds, self._begin)

    def _begin(self) -> None:
        """What waits goes out."""
        self._planned = False
        if self._dead or self._going or not self._waiting:
            return
        self._going, self._waiting = self._waiting, []
        self._box.after(self._box.random.uniform(*_SYNC_S), self._commit)

    def _commit(self) -> None:
        """It has got there, or there is no space."""
        if self._dead or not self._going:
            return
        going, self._going = self._going, []
        for facts, keep, done in going:
            if self._disk.full or self._backlog:
                self._backlog += facts if keep else []
                if not self._told_full:
                    self._told_full = True
                    self.on_disk(True, "no space is left")
                done(OSError(errno.ENOSPC, "no space is left"))
            else:
                self._disk.facts += facts
                done(None)
        if self._waiting:
            self._begin()
