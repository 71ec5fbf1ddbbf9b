"""What the newest attempts that have ended reported last, by task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..core.deck import Deck
from ..logs.files import AttemptPaths
from .past_metrics import PastMetrics
from .reported import Reported

_NONE = Reported()


class LastMetrics:
    """Of attempts that this engine has followed, and of those that an earlier one has seen to their end."""

    def __init__(
        self, deck: Deck, loop: asyncio.AbstractEventLoop, paths: Callable[[str, int, bool], AttemptPaths]
    ) -> None:
        """*paths*: `LogFolder.paths`."""
        self._deck = deck
        self._last: dict[str, Reported] = {}
        """Who reported nothing is not in it."""
        self._past = PastMetrics(deck, loop, paths, self._recalled)

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
        self._past.close()

    def _recalled(self, task: str, metrics: Reported) -> None:
        if task not in self._last:
            self.keep(task, metrics)
