"""Ends of processes, and signals that cannot hit a stranger with a recycled pid."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from .processes import proc

POLL_S = 0.25


class Watch:
    """Waits for the end of one process and calls *ended* once, on the loop's thread."""

    def __init__(self, watcher: Watcher, pid: int, start_ticks: int, ended: Callable[[], None]) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.ended = ended
        self.fd = -1
        self._watcher = watcher

    def close(self) -> None:
        """Wait no longer. Idempotent."""
        self._watcher.release(self)

    def fire(self) -> None:
        """The process ended: let go of it and say so."""
        self.close()
        self.ended()


class Watcher:
    """Watches processes through pidfds; by looking four times a second where there are none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, pidfd: bool) -> None:
        self._loop = loop
        self._pidfd = pidfd
        self._watches: set[Watch] = set()
        self._polled: set[Watch] = set()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, pid: int, start_ticks: int, ended: Callable[[], None], *, child: bool = False) -> Watch:
        """Call *ended* when this very process has ended (a zombie has). Never calls it from within.

        *child*: it is one of ours that was not reaped, whose pid cannot mean anybody else.
        """
        watch = Watch(self, pid, start_ticks, ended)
        self._watches.add(watch)
        watch.fd = _open(pid) if self._pidfd else -1
        if watch.fd < 0:
            self._poll(watch)
        elif child or proc.is_live(pid, start_ticks):
            self._loop.add_reader(watch.fd, watch.fire)
        else:
            self._loop.call_soon(self._fire_if_kept, watch)
        return watch

    def release(self, watch: Watch) -> None:
        """Forget a watch and its descriptor. Idempotent."""
        self._watches.discard(watch)
        self._polled.discard(watch)
        if watch.fd >= 0:
            self._loop.remove_reader(watch.fd)
            os.close(watch.fd)
            watch.fd = -1

    def close(self) -> None:
        """Let go of all."""
        for watch in list(self._watches):
            self.release(watch)
        if self._timer is not None:
            self._timer.cancel()

    def _fire_if_kept(self, watch: Watch) -> None:
        if watch in self._watches:
            watch.fire()

    def _poll(self, watch: Watch) -> None:
        self._polled.add(watch)
        if self._timer is None:
            self._timer = self._loop.call_later(POLL_S, self._look)

    def _look(self) -> None:
        self._timer = None
        for watch in list(self._polled):
            if watch in self._polled and not proc.is_live(watch.pid, watch.start_ticks):
                watch.fire()
        if self._polled:
            self._timer = self._loop.call_later(POLL_S, self._look)


def send(pid: int, start_ticks: int, number: int) -> bool:
    """Signal this very process. False when it is gone or not ours to signal."""
    fd = _open(pid)
    try:
        if not proc.is_live(pid, start_ticks):
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if fd >= 0:
                signal.pidfd_send_signal(fd, number)
            else:
                os.kill(pid, number)
            return True
        return False
    finally:
        if fd >= 0:
            os.close(fd)


def send_group(group: int, number: int) -> None:
    """Signal a process group; one that is gone is not an error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _open(pid: int) -> int:
    """A pidfd, or -1 when there is none to be had (no such process, no descriptors left, an old kernel)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
