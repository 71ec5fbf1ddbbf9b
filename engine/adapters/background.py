"""Work that may hang, away from the loop: /proc/PID/environ of a stuck process, a log on a dead file server."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

_REFUSED_S = 0.5
"""How long after the kernel refused a thread it is asked again."""

_T = TypeVar("_T")
_Queue = SimpleQueue["_Job | None"]


@dataclass(eq=False, slots=True)
class _Job:
    work: Callable[[], Any]
    done: Callable[[Any], None]
    timeout_s: float
    timer: asyncio.TimerHandle | None = None
    worked: bool = False
    """Its result is on the way."""


class Background:
    """One daemon thread that does jobs in order. A hung job is given up, its thread left behind and replaced; the time
    that a job may take counts from when it is its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pending: dict[_Job, None] = {}
        self._queue: _Queue | None = None

    def submit(self, work: Callable[[], _T], done: Callable[[_T | None], None], *, timeout_s: float = 2.0) -> None:
        """Run *work* in the thread, then *done* with its result on the loop's thread; with None where *work* takes
        longer than *timeout_s*.

        *work* must not raise. Called on the loop's thread.
        """
        job = _Job(work, done, timeout_s)
        self._pending[job] = None
        self._time_first()
        if self._queue is None:
            self._begin()
        else:
            self._queue.put(job)

    def close(self) -> None:
        """Drop what is pending; the thread ends by itself."""
        for job in self._pending:
            if job.timer is not None:
                job.timer.cancel()
        self._pending.clear()
        if self._queue is not None:
            self._queue.put(None)
            self._queue = None

    def _begin(self) -> None:
        self._queue = SimpleQueue()
        for job in self._pending:
            self._queue.put(job)
        try:
            threading.Thread(target=self._run, args=(self._queue,), name="gpudeck-proc", daemon=True).start()
        except RuntimeError:  # as many processes and threads as the user, or the cgroup, may have
            self._queue = None
            self._loop.call_later(_REFUSED_S, self._begin_late)

    def _begin_late(self) -> None:
        if self._queue is None and self._pending:
            self._begin()

    def _time_first(self) -> None:
        """Jobs end in order: the first that is pending is the one that is being done."""
        job = next(iter(self._pending), None)
        if job is not None and job.timer is None:
            job.timer = self._loop.call_later(job.timeout_s, self._give_up, job)

    def _give_up(self, job: _Job) -> None:
        if job.worked:
            return
        if self._queue is not None:
            self._queue.put(None)
            self._queue = None
        self._finish(job, None)
        if self._queue is None and self._pending:
            self._begin()

    def _run(self, queue: _Queue) -> None:
        while (job := queue.get()) is not None and queue is self._queue:
            result = job.work()
            job.worked = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the answer
                self._loop.call_soon_threadsafe(self._finish, job, result)

    def _finish(self, job: _Job, result: object) -> None:
        if job in self._pending:
            del self._pending[job]
            if job.timer is not None:
                job.timer.cancel()
            self._time_first()
            job.done(result)
