"""Work that may hang, away from the loop: /proc/PID/environ of a stuck process, a log on a dead file server, Slurm."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

_REFUSED_S = 0.5
"""How long after the kernel refused a thread it is asked again."""

_T = TypeVar("_T")


@dataclass(eq=False, slots=True)
class _Job:
    work: Callable[[], Any]
    done: Callable[[Any], None]
    timeout_s: float
    timer: asyncio.TimerHandle | None = None
    """Set while a thread does it."""
    worked: bool = False
    """Its result is on the way."""


class Background:
    """Daemon threads that begin jobs in order, as many at once as there may be. One that hangs is given up and its
    thread left behind; the time that a job may take counts from when it is its turn. No job is done twice.

    On a box whose cores are all taken a thread's start holds up the loop for as long as the scheduler likes: so those
    that have ended their work are kept.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, threads: int = 1) -> None:
        self._loop = loop
        self._threads = threads
        self._waiting: deque[_Job] = deque()
        self._working: set[_Job] = set()
        self._given: SimpleQueue[_Job | None] = SimpleQueue()
        self._idle = 0
        """Threads that wait for work."""
        self._closed = False

    def submit(self, work: Callable[[], _T], done: Callable[[_T | None], None], *, timeout_s: float = 2.0) -> None:
        """Run *work* in a thread, then *done* with its result on the loop's thread, never before this returns; with
        None where *work* takes longer than *timeout_s*.

        *work* must not raise. Called on the loop's thread.
        """
        self._waiting.append(_Job(work, done, timeout_s))
        self._hand_out()

    def close(self) -> None:
        """Nobody is told any more, and what has not begun is dropped; threads end by themselves."""
        self._closed = True
        self._waiting.clear()
        for job in self._working:
            if job.timer is not None:
                job.timer.cancel()
        self._working.clear()
        for _ in range(self._idle):
            self._given.put(None)
        self._idle = 0

    def _hand_out(self) -> None:
        while self._waiting and len(self._working) < self._threads and not self._closed:
            if self._idle:
                self._idle -= 1
            else:
                try:
                    threading.Thread(target=self._run, name="gpudeck-aside", daemon=True).start()
                except RuntimeError:  # as many processes and threads as the user, or the cgroup, may have
                    self._loop.call_later(_REFUSED_S, self._hand_out)
                    return
            job = self._waiting.popleft()
            job.timer = self._loop.call_later(job.timeout_s, self._give_up, job)
            self._working.add(job)
            self._given.put(job)

    def _run(self) -> None:
        while (job := self._given.get()) is not None:
            result = job.work()
            job.worked = True
            try:
                self._loop.call_soon_threadsafe(self._did, job, result)
            except RuntimeError:  # the loop is closed: nobody waits for the answer
                return

    def _did(self, job: _Job, result: object) -> None:
        if job in self._working:
            self._idle += 1
            self._finish(job, result)
        else:
            self._given.put(None)  # another thread has this one's place

    def _give_up(self, job: _Job) -> None:
        if not job.worked:
            self._finish(job, None)

    def _finish(self, job: _Job, result: object) -> None:
        self._working.discard(job)
        if job.timer is not None:
            job.timer.cancel()
        self._hand_out()
        job.done(result)


def within(limit_s: float, work: Callable[[], _T]) -> _T:
    """What *work* returns or raises, where somebody has to wait for it; TimeoutError after *limit_s*. Its thread is
    then left behind, and holds up no exit. Raises RuntimeError where there is no thread to be had."""
    answer: Future[_T] = Future()

    def do() -> None:
        try:
            answer.set_result(work())
        except Exception as error:  # The thread ends here; who waits for the answer raises it.
            answer.set_exception(error)

    threading.Thread(target=do, name="gpudeck-within", daemon=True).start()
    wait((answer,), limit_s)
    if not answer.done():
        raise TimeoutError(f"no answer in {limit_s:g} s")
    return answer.result()
