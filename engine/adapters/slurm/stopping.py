"""Jobs that are asked to end, or to take notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...core.spec import StopScope
from .cancelling import Cancelling
from .control import Control
from .jobs import Job, Limits, Stop
from .telling import Telling

_AGAIN_S = 2.0
"""After the folder did not answer."""


class Stopping:
    """All calls on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        control: Control,
        telling: Telling,
        cancelling: Cancelling,
        *,
        voided: Callable[[Job], None],
        limits: Limits,
        now: Callable[[], float],
    ) -> None:
        """*voided* is told of a job that may be in the queue, and of which nothing will run."""
        self._loop = loop
        self._control = control
        self._telling = telling
        self._cancelling = cancelling
        self._voided = voided
        self._limits = limits
        self._now = now
        self._timers = set[asyncio.TimerHandle]()

    def stop(self, job: Job, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """See `ports.Launcher`."""
        kill_at = self._now() + grace_s
        if job.stop is not None and kill_at >= job.stop.kill_at:
            return
        cancelled = job.stop is not None and job.stop.cancelled
        job.stop = Stop(signal, kill_at, cancelled)
        if job.stage == "queued":
            self._telling.never_ran(job)
        elif job.stage == "running":
            self._ask(job, scope)
        else:
            self._void(job, scope)

    def close(self) -> None:
        """Idempotent."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _void(self, job: Job, scope: StopScope) -> None:
        """Whoever makes its claim first decides whether it runs."""
        self._control.void(job.token, lambda free: self._claimed(job, scope, free))

    def _claimed(self, job: Job, scope: StopScope, free: bool | None) -> None:
        if job.stage == "gone":
            return
        if free:
            self._voided(job)
            self._telling.never_ran(job)
        elif free is None:
            self._later(_AGAIN_S, lambda: self._void(job, scope))
        else:
            self._ask(job, scope)

    def _ask(self, job: Job, scope: StopScope) -> None:
        """Its wrapper does it, within a second, and Slurm where it does not."""
        if job.stop is None or job.stage == "gone":
            return
        left_s = max(0.0, job.stop.kill_at - self._now())
        self._control.stop(job.token, job.stop.signal, left_s, scope)
        self._later(left_s + self._limits.beyond_grace_s, lambda: self._overdue(job))

    def _overdue(self, job: Job) -> None:
        if job.stage == "gone" or job.stop is None or job.stop.cancelled or not job.id or job.renumbered:
            return
        job.stop.cancelled = True
        self._cancelling.add(job.id)

    def _later(self, after_s: float, then: Callable[[], None]) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            then()

        timer = self._loop.call_later(after_s, ring)
        self._timers.add(timer)
