"""What the newest attempts that have ended reported last, by task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice

from ..adapters.background import Background
from ..core.deck import Deck, Task
from ..logs.files import AttemptPaths
from .reported import Reported, Told, read_all

FIRST_S = 1.0
"""Who opens a deck sees it first."""
_TASKS = 256
"""Looked at in one go."""
_REST_S = 0.05
_PATIENCE_S = 10.0
_NONE = Reported()


class LastMetrics:
    """Of attempts that this engine has followed, and of those that ended under earlier ones, from their attempt-N.json.
    On the loop's thread; files are read in another, a few at a time, and no more of them once one does not answer."""

    def __init__(
        self, deck: Deck, loop: asyncio.AbstractEventLoop, paths: Callable[[str, int, bool], AttemptPaths]
    ) -> None:
        """*paths*: `LogFolder.paths`. Begins to read by itself."""
        self._deck = deck
        self._loop = loop
        self._paths = paths
        self._last: dict[str, Reported] = {}
        """Who reported nothing is not in it."""
        self._reader = Background(loop)
        self._unread: Iterator[Task] | None = None
        self._timer = loop.call_later(FIRST_S, self._go_on)

    def of(self, task: str) -> Reported:
        """As far as that has been read."""
        return self._last.get(task, _NONE)

    def keep(self, task: str, metrics: Reported) -> None:
        """Its attempt has ended with these; the task's row shows them."""
        if metrics.last:
            self._last[task] = metrics
            self.moved(task)

    def forget(self, task: str) -> None:
        """A newer attempt has ended."""
        self._last.pop(task, None)

    def moved(self, task: str) -> None:
        """The task's row is other than it was. An edit of the file may have given the task another place."""
        found = self._deck.by_name.get(task)
        if found is not None:
            self._deck.moved.add(found.index)

    def close(self) -> None:
        self._timer.cancel()
        self._reader.close()

    def _go_on(self) -> None:
        if self._unread is None:
            self._unread = iter(tuple(self._deck.tasks))
        tasks = tuple(islice(self._unread, _TASKS))
        if not tasks:
            return
        newest = [(task.name, task.ended[-1].number) for task in tasks if task.ended]
        files = [(name, number, self._paths(name, number, False).json) for name, number in newest]
        if files:
            self._reader.submit(lambda: read_all(files), self._read, timeout_s=_PATIENCE_S)
        else:
            self._timer = self._loop.call_later(0, self._go_on)

    def _read(self, found: list[Told] | None) -> None:
        if found is None:
            return
        for name, number, metrics in found:
            task = self._deck.by_name.get(name)
            newest = task.ended[-1].number if task is not None and task.ended else 0
            if number == newest and name not in self._last:
                self.keep(name, metrics)
        self._timer = self._loop.call_later(_REST_S, self._go_on)
