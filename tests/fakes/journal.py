"""A journal in memory that fails on demand, and facts to put into one. Processes that write journals import it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future

from gpudeck.engine.core.events import Fact, PriorityChanged
from gpudeck.engine.ports import Done, Journal, JournalBrokenError


class MemoryJournal:
    """`ports.Journal` without a disk: appends are done at once, or at `release` after `hold`."""

    def __init__(self, facts: Sequence[Fact] = ()) -> None:
        self.facts = list(facts)
        """What is "on disk"."""
        self.damage = ""
        self.on_disk: Callable[[bool, str], None] | None = None
        self.durable_appends = 0
        self._held: list[tuple[list[Fact], bool, Done]] | None = None
        self._backlog: list[Fact] = []
        self._full = False
        self._told_full = False
        self._broken = False
        self._closed = False

    def load(self) -> Iterator[Fact]:
        return iter(list(self.facts))

    def submit(self, facts: Sequence[Fact], *, durable: bool, done: Done | None = None, keep: bool = False) -> None:
        if self._closed:
            raise JournalBrokenError("the journal is closed")
        self.durable_appends += durable
        waiting = (list(facts), keep, done or _ignore)
        if self._held is None:
            self._write(*waiting)
        else:
            self._held.append(waiting)

    def close(self) -> None:
        self.release()
        self._closed = True

    def hold(self) -> None:
        """Let appends wait, as for a slow disk."""
        self._held = self._held or []

    def release(self) -> None:
        """Write what waits, in order, and hold no longer."""
        held, self._held = self._held or [], None
        for waiting in held:
            self._write(*waiting)

    def fill(self) -> None:
        """The disk is full from now on; noticed by the next append."""
        self._full = True

    def free(self) -> None:
        """There is space again: what was kept is written."""
        self._full = False
        self.facts += self._backlog
        self._backlog = []
        self._tell(False, "")

    def break_down(self) -> None:
        """The disk fails for good."""
        self._broken = True

    def _tell(self, full: bool, why: str) -> None:
        if self._told_full != full:
            self._told_full = full
            if self.on_disk is not None:
                self.on_disk(full, why)

    def _write(self, facts: list[Fact], keep: bool, done: Done) -> None:
        if self._broken:
            done(JournalBrokenError("the disk failed"))
        elif self._full:
            if keep:
                self._backlog += facts
            self._tell(True, "no space is left")
            done(OSError(errno.ENOSPC, "no space is left"))
        else:
            self.facts += facts
            done(None)


def _ignore(_: Exception | None) -> None:
    pass


def appended(journal: Journal, facts: Sequence[Fact], *, durable: bool = True, keep: bool = False) -> Future[None]:
    """Submit *facts*; the future is done when the callback was called."""
    future: Future[None] = Future()

    def done(error: Exception | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    journal.submit(facts, durable=durable, done=done, keep=keep)
    return future


def numbered(first: int, count: int = 1) -> list[Fact]:
    """Small facts that tell their place in the order."""
    return [PriorityChanged("t", number) for number in range(first, first + count)]


def numbers(facts: Iterable[Fact]) -> list[int]:
    """The places of `numbered` facts."""
    return [fact.priority for fact in facts if isinstance(fact, PriorityChanged)]
