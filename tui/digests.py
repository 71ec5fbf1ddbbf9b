"""The lines that tell why an attempt failed, read from its logs in a daemon thread: they may lie on a file server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from ..engine.logs.digest import digest
from ..engine.protocol.pages import Failure

_LINES = 20
_KEPT = 200

Key = tuple[str, int]
"""Task and attempt."""


class Digests:
    """*told* is called through *deliver*, which brings a call onto the UI's thread, when one has been read."""

    def __init__(self, deliver: Callable[[Callable[[], None]], None], told: Callable[[], None]) -> None:
        self._deliver = deliver
        self._told = told
        self._found: dict[Key, tuple[str, ...] | None] = {}
        """None: it is being read."""
        self._wanted: queue.SimpleQueue[Failure | None] = queue.SimpleQueue()
        self._started = False

    def of(self, failure: Failure) -> tuple[str, ...] | None:
        """The end of what it wrote; None: not read yet, it will be told."""
        key = (failure.task, failure.attempt)
        if key not in self._found:
            if not failure.log:
                return ()
            self._found[key] = None
            while len(self._found) > _KEPT:
                del self._found[next(iter(self._found))]
            self._wanted.put(failure)
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="gpudeck-digests", daemon=True).start()
        return self._found[key]

    def close(self) -> None:
        self._wanted.put(None)

    def _run(self) -> None:
        while (failure := self._wanted.get()) is not None:
            lines = digest(failure.err, failure.log, _LINES)
            self._deliver(lambda key=(failure.task, failure.attempt), lines=lines: self._take(key, lines))

    def _take(self, key: Key, lines: tuple[str, ...]) -> None:
        self._found[key] = lines
        self._told()
