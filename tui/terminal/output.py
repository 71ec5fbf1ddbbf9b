"""What goes to the terminal, without ever waiting for it."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

_CHUNK_BYTES = 1024


class Output:
    """A thread writes what `write` has put down. A terminal that takes nothing any more holds up nobody."""

    def __init__(self, fd: int, *, drained: Callable[[], None], lost: Callable[[], None]) -> None:
        """Both are called on the thread. *drained*: all has been taken; *lost*: the terminal is gone."""
        self._fd = fd
        self._drained = drained
        self._lost = lost
        self._changed = threading.Condition()
        self._waiting = bytearray()
        self._open = True
        self._thread = threading.Thread(target=self._run, name="gpudeck-output", daemon=True)
        self._thread.start()

    @property
    def backlog_bytes(self) -> int:
        """What the terminal has not taken yet."""
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        with self._changed:
            if self._open:
                self._waiting += data
                self._changed.notify()

    def close(self, patience_s: float) -> None:
        """Nothing more comes. Waits so long at most until all is written."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join(patience_s)

    def _run(self) -> None:
        while chunk := self._next():
            try:
                written = os.write(self._fd, chunk)
            except BlockingIOError:  # whoever shares the terminal has made it so
                select.select([], [self._fd], [])
                continue
            except OSError:
                self._give_up()
                return
            with self._changed:
                del self._waiting[:written]
                drained = not self._waiting
            if drained:
                self._drained()

    def _next(self) -> bytes:
        """What to write; b"" at the end."""
        with self._changed:
            while not self._waiting and self._open:
                self._changed.wait()
            return bytes(self._waiting[:_CHUNK_BYTES])

    def _give_up(self) -> None:
        with self._changed:
            self._open = False
            self._waiting.clear()
        self._drained()
        self._lost()
