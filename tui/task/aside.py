"""What attempts have left in files, read in a daemon thread: they may lie on a file server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ..link.ask import Deliver

Wanted = TypeVar("Wanted", bound=Hashable)
Found = TypeVar("Found")


class Aside(Generic[Wanted, Found]):
    """Reads what is asked for, one after the other, and keeps what it has found. On the UI's thread but for *read*."""

    def __init__(
        self,
        read: Callable[[Wanted], Found],
        deliver: Deliver,
        told: Callable[[], None],
        *,
        kept: int,
    ) -> None:
        """*read* may block; it raises nothing. *told* is called through *deliver*, which brings a call onto the UI's
        thread, when something else has been found. *kept*: of so many the newest."""
        self._read = read
        self._deliver = deliver
        self._told = told
        self._kept = kept
        self._found: dict[Wanted, Found | None] = {}
        """None: it is being read."""
        self._wanted: queue.SimpleQueue[tuple[Wanted] | None] = queue.SimpleQueue()
        self._started = False

    def of(self, wanted: Wanted) -> Found | None:
        """None: not read yet, it will be told."""
        if wanted not in self._found:
            self._found[wanted] = None
            while len(self._found) > self._kept:
                del self._found[next(iter(self._found))]
            self.again(wanted)
        return self._found[wanted]

    def again(self, wanted: Wanted) -> None:
        """Read it once more: of an attempt that has just begun or ended not all is written yet."""
        self._wanted.put((wanted,))
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="gpudeck-aside", daemon=True).start()

    def close(self) -> None:
        self._wanted.put(None)

    def _run(self) -> None:
        while (order := self._wanted.get()) is not None:
            found = self._read(order[0])
            self._deliver(lambda wanted=order[0], found=found: self._take(wanted, found))

    def _take(self, wanted: Wanted, found: Found) -> None:
        if self._found.get(wanted) != found:
            self._found[wanted] = found
            self._told()
