"""Jobs of attempts that were given up: they leave the queue, whenever they turn up in it."""

from __future__ import annotations

from collections.abc import Callable

from .cancelling import Cancelling
from .control import Control
from .jobs import Job
from .parse import QueuedJob
from .states import stand

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
