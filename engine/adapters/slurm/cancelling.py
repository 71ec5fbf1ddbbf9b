"""Jobs that are to leave the queue: those of attempts that were given up, whenever they turn up in it, and scancel, one
call for many jobs, until they are out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from .asking import Picture
from .calls import Answer, Calls
from .control import Control
from .jobs import Job
from .parse import QueuedJob
from .states import stand

_GATHER_S = 0.05
_MOST = 1000
"""Jobs of one call."""
_TIMEOUT_S = 120.0
_AGAIN_S = 10.0
"""A job that is still listed so long after Slurm was asked to end it is asked for again."""


class Cancelling:
    """Jobs that are to leave the queue. All calls on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        calls: Calls,
        *,
        now: Callable[[], float],
        gone: Callable[[str], None],
    ) -> None:
        """*gone* is told the id of each job that has left, or is over."""
        self._loop = loop
        self._calls = calls
        self._now = now
        self._gone = gone
        self._asked: dict[str, float | None] = {}
        """When Slurm was last asked, by id; None: not yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._running = False

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, job_id: str) -> None:
        """Idempotent."""
        if job_id not in self._asked:
            self._asked[job_id] = None
            self._arm(_GATHER_S)

    def over(self, job_id: str) -> None:
        """Slurm says that it is over, or knows it no more."""
        if job_id in self._asked:
            del self._asked[job_id]
            self._gone(job_id)

    def looked(self, picture: Picture) -> None:
        """The queue was seen."""
        for job_id, asked_at in list(self._asked.items()):
            if job_id not in picture.ids and asked_at is not None and asked_at < picture.asked_at:
                self.over(job_id)
            elif asked_at is not None and picture.asked_at - asked_at > _AGAIN_S:
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
        self._arm(_GATHER_S if answer.ok else _AGAIN_S)


_TURNS_UP_S = 600.0
"""So long after it was given up the job of a submission that nobody has seen may come into the queue."""


class Leaving:
    """All calls on the loop's thread."""

    def __init__(self, control: Control, cancelling: Cancelling, *, now: Callable[[], float]) -> None:
        self._control = control
        self._cancelling = cancelling
        self._now = now
        self._voided: dict[str, str] = {}
        """Tokens of which nothing will run, also by element: what of them shows up in the queue leaves it again."""
        self._leaving: dict[str, str] = {}
        """Tokens of jobs that are to leave it, by id."""
        self._unseen: dict[str, float] = {}
        """Tokens of which no job is known, and until when one is looked for."""

    def void(self, job: Job) -> None:
        """Nothing of it runs: its job, if there is one, leaves the queue."""
        self._voided[job.token] = job.token
        if job.element:
            self._voided[job.element] = job.token
        if not job.id:
            self._unseen[job.token] = self._now() + _TURNS_UP_S
        elif stand(job.state) != "over":
            self._leave(job.id, job.token)

    @property
    def expects(self) -> bool:
        """Whether jobs that nobody has seen yet may come into the queue."""
        self._unseen = {token: until for token, until in self._unseen.items() if until > self._now()}
        return bool(self._unseen)

    def is_void(self, token: str) -> bool:
        """Whether its claim must stay: a job of it may yet begin."""
        return token in self._voided

    def tokens(self) -> frozenset[str]:
        """All of those."""
        return frozenset(self._voided.values())

    def stray(self, row: QueuedJob) -> None:
        """The queue shows a job of none that is looked after."""
        over = stand(row.state) == "over"
        element = f"{row.batch}_{row.id.partition('_')[2]}" if row.batch else row.token
        if over:
            self._cancelling.over(row.id)
        elif element and (token := self._voided.get(element)):
            self._leave(row.id, token)

    def left(self, job_id: str) -> None:
        """A job is out of the queue."""
        token = self._leaving.pop(job_id, None)
        if token is not None:
            self._voided = {key: value for key, value in self._voided.items() if value != token}
            self._control.forget(token)

    def _leave(self, job_id: str, token: str) -> None:
        self._unseen.pop(token, None)
        self._leaving[job_id] = token
        self._cancelling.add(job_id)
