"""What attempts that are over reported last, read from their attempt-N.json while there is time."""

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


class PastMetrics:
    """Of attempts that ended under earlier engines, the newest of each task; one look at each. On the loop's thread;
    files are read in another, a few at a time, and no more of them once one does not answer."""

    def __init__(
        self,
        deck: Deck,
        loop: asyncio.AbstractEventLoop,
        paths: Callable[[str, int, bool], AttemptPaths],
        take: Callable[[str, Reported], None],
    ) -> None:
        """Begins by itself. *take* is told a task and what its newest attempt said."""
        self._deck = deck
        self._loop = loop
        self._paths = paths
        self._take = take
        self._reader = Background(loop)
        self._left: Iterator[Task] | None = None
        self._timer = loop.call_later(FIRST_S, self._go_on)

    def close(self) -> None:
        self._timer.cancel()
        self._reader.close()

    def _go_on(self) -> None:
        if self._left is None:
            self._left = iter(tuple(self._deck.tasks))
        tasks = tuple(islice(self._left, _TASKS))
        if not tasks:
            return
        files = [
            (task.name, number, self._paths(task.name, number, False).json)
            for task in tasks
            if task.ended
            for number in (task.ended[-1].number,)
        ]
        if files:
            self._reader.submit(lambda: read_all(files), self._read, timeout_s=_PATIENCE_S)
        else:
            self._timer = self._loop.call_later(0, self._go_on)

    def _read(self, found: list[Told] | None) -> None:
        if found is None:
            return
        for name, number, metrics in found:
            task = self._deck.by_name.get(name)
            if task is not None and task.ended and task.ended[-1].number == number:
                self._take(name, metrics)
        self._timer = self._loop.call_later(_REST_S, self._go_on)
