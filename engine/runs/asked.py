"""Signals to a command that waits: counted, and told through a descriptor, so that nothing is cut short by them."""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2


class Asked:
    """SIGINT and SIGTERM, from entering it to leaving it. On the main thread."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self.times = 0
        self.handled = 0
        """How many were acted on. When several wait for that, something hangs, and the next one interrupts as usual."""
        self._before: dict[int, Any] = {}
        self._fds: tuple[int, int] = (-1, -1)

    def fileno(self) -> int:
        """Can be read when a signal has come."""
        return self._fds[0]

    def clear(self) -> None:
        """Let `fileno` wait for the next one."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._fds[0], 64):
                pass

    def __enter__(self) -> Asked:
        self._fds = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # A shell makes its background jobs ignore SIGINT: Ctrl-C is meant for others then.
        numbers = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._take) for number in numbers}
        signal.set_wakeup_fd(self._fds[1], warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for fd in self._fds:
            os.close(fd)

    def _take(self, number: int, _: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)
        self.times += 1
        if self.times > self.handled + _PATIENCE:
            raise KeyboardInterrupt
