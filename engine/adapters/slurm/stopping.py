"""Jobs that are asked to end; and those that are to leave the queue, whenever they turn up in it, since their attempts
were given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from ...core.spec import StopScope
from .calls import Answer, Calls
from .control import Control
from .jobs import Job, Limits, Stop
from .parse import QueuedJob
from .queue_poller import Picture
from .report import Report
from .states import stand

_GATHER_S = 0.05
_MOST = 1000
"""Jobs of one call."""
_TIMEOUT_S = 120.0
_LISTED_S = 10.0
"""A job that is still listed so long after Slurm was asked to end it is asked for again."""
_TURNS_UP_S = 600.0
"""So long after it was given up the job of a submission that nobody has seen may come into the queue."""


class Removals:
    """Jobs that are to leave the queue: one scancel for many, until they are out; and attempts that were given up, of
    which jobs may turn up in it. All calls on the loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, calls: Calls, control: Control, *, now: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._calls = calls
        self._control = control
        self._now = now
        self._asked: dict[str, float | None] = {}
        """When Slurm was last asked, by id; None: not yet."""
        self._token_of: dict[str, str] = {}
        """By id, of those whose attempts were given up."""
        self._voided: dict[str, str] = {}
        """Tokens of which nothing will run, also by element: what of them shows up in the queue leaves it again."""
        self._unseen: dict[str, float] = {}
        """Tokens of which no job is known, and until when one is looked for."""
        self._timer: asyncio.TimerHandle | None = None
        self._running = False

    @property
    def expected(self) -> bool:
        """Whether jobs have still to leave the queue, or may come into it that nobody has seen yet."""
        self._unseen = {token: until for token, until in self._unseen.items() if until > self._now()}
        return bool(self._asked or self._unseen)

    def add(self, job_id: str) -> None:
        """Idempotent."""
        if job_id not in self._asked:
            self._asked[job_id] = None
            self._arm(_GATHER_S)

    def void(self, job: Job) -> None:
        """Nothing of it runs: its job, if there is one, leaves the queue."""
        self._voided[job.token] = job.token
        if job.element:
            self._voided[job.element] = job.token
        if not job.id:
            self._unseen[job.token] = self._now() + _TURNS_UP_S
        elif stand(job.state) != "over":
            self._remove(job.id, job.token)

    def is_void(self, token: str) -> bool:
        """Whether its claim must stay: a job of it may yet begin."""
        return token in self._voided

    def voided(self) -> frozenset[str]:
        """The tokens of all of those."""
        return frozenset(self._voided.values())

    def over(self, job_id: str) -> None:
        """Slurm says that it is over, or knows it no more."""
        if job_id not in self._asked:
            return
        del self._asked[job_id]
        token = self._token_of.pop(job_id, None)
        if token is not None:
            self._voided = {key: value for key, value in self._voided.items() if value != token}
            self._control.forget(token)

    def stray(self, row: QueuedJob) -> None:
        """The queue shows a job of none that is looked after."""
        element = f"{row.batch}_{row.id.partition('_')[2]}" if row.batch else row.token
        if stand(row.state) == "over":
            self.over(row.id)
        elif element and (token := self._voided.get(element)):
            self._remove(row.id, token)

    def looked(self, picture: Picture) -> None:
        """The queue was seen."""
        for job_id, asked_at in list(self._asked.items()):
            if job_id not in picture.ids and asked_at is not None and asked_at < picture.asked_at:
                self.over(job_id)
            elif asked_at is not None and picture.asked_at - asked_at > _LISTED_S:
                self._asked[job_id] = None
                self._arm(_GATHER_S)

    def close(self) -> None:
        """Those that Slurm has not been asked about are asked for now; nobody waits for the answer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = [job_id for job_id, asked_at in self._asked.items() if asked_at is None]
        self._asked.clear()
        for first in range(0, len(due), _MOST):
            self._calls.leave(("scancel", *due[first : first + _MOST]))

    def _remove(self, job_id: str, token: str) -> None:
        self._unseen.pop(token, None)
        self._token_of[job_id] = token
        self.add(job_id)

    def _arm(self, after_s: float) -> None:
        if self._timer is None and not self._running:
            self._timer = self._loop.call_later(after_s, self._cancel)

    def _cancel(self) -> None:
        self._timer = None
        due = list(islice((job_id for job_id, asked_at in self._asked.items() if asked_at is None), _MOST))
        if not due:
            return
        self._running = True
        self._calls.run(("scancel", *due), lambda answer: self._answered(due, answer), timeout_s=_TIMEOUT_S)

    def _answered(self, due: list[str], answer: Answer) -> None:
        """An exit code other than 0 may be about one of them: those that stay listed are asked for again."""
        self._running = False
        for job_id in due:
            if job_id in self._asked:
                self._asked[job_id] = self._now()
        self._arm(_GATHER_S if answer.ok else _LISTED_S)


_AGAIN_S = 2.0
"""After the folder did not answer."""


class Stops:
    """Attempts that are asked to end. All calls on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        control: Control,
        report: Report,
        removals: Removals,
        *,
        limits: Limits,
        now: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._control = control
        self._report = report
        self._removals = removals
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
            self._report.never_ran(job)
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
            self._removals.void(job)
            self._report.never_ran(job)
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
        self._removals.add(job.id)

    def _later(self, after_s: float, then: Callable[[], None]) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            then()

        timer = self._loop.call_later(after_s, ring)
        self._timers.add(timer)
