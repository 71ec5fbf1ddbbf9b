"""Rings at a time of CLOCK_BOOTTIME. asyncio's own timers stand still while the box sleeps: what came due meanwhile
would wait as long again once it is awake."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import time
from collections.abc import Callable

from .host import boottime_s

_CLOEXEC, _NONBLOCK, _ABSOLUTE = 0o2000000, 0o4000, 1
_NS = 1_000_000_000


class Alarm:
    """`ports.Alarm` by a timerfd; by asyncio's timers where the kernel has none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        """*ring* is called on *loop*."""
        self._loop = loop
        self._ring = ring
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.timerfd_create(time.CLOCK_BOOTTIME, _CLOEXEC | _NONBLOCK)
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        if self._fd >= 0:
            loop.add_reader(self._fd, self._rung)

    def set(self, at: float | None) -> None:
        if self._fd < 0:
            self._set_timer(None if self._closed else at)
            return
        # Zero would mean never.
        ns = 0 if at is None else max(1, int(at * _NS))
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, (ctypes.c_long * 4)(0, 0, *divmod(ns, _NS)), None)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _set_timer(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_s = None if at is None else max(0.0, at - boottime_s())
        self._timer = None if wait_s is None else self._loop.call_later(wait_s, self._ring)

    def _rung(self) -> None:
        with contextlib.suppress(OSError):  # set anew in the same turn: nothing to read
            if os.read(self._fd, 8):
                self._ring()
