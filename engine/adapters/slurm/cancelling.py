"""scancel, one call for many jobs, until they are out of the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from .asking import Picture
from .calls import Answer, Calls

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
