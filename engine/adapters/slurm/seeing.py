"""What a picture of the queue tells of our jobs: where each stands, why it waits, and which it does not show."""

from __future__ import annotations

from collections.abc import Callable, Collection

from .asking import Picture
from .cancelling import Cancelling, Leaving
from .jobs import Job, Jobs
from .judging import Judging
from .parse import QueuedJob
from .states import never_starts, stand
from .telling import Telling

_SHOWN_S = 60.0
"""So long the controller's word on a job stands against a queue that does not show it."""


class Seeing:
    """All calls on the loop's thread."""

    def __init__(
        self,
        jobs: Jobs,
        telling: Telling,
        cancelling: Cancelling,
        leaving: Leaving,
        judging: Judging,
        *,
        note: Callable[[str, str], None],
    ) -> None:
        self._jobs = jobs
        self._telling = telling
        self._cancelling = cancelling
        self._leaving = leaving
        self._judging = judging
        self._note = note
        self._noted = set[str]()
        """Reasons for which jobs do not start at all, each told once."""

    def looked(self, picture: Picture) -> bool:
        """Take a picture of the queue in; whether anything of ours has moved."""
        moved = False
        for row in picture.changed:
            job = self._jobs.of(row)
            if job is None:
                self._leaving.stray(row)
            else:
                moved = self._row(job, row) or moved
        arrays = {each.partition("_")[0] for each in picture.ids if "_" in each}
        tokens = {row.id: row.token for row in picture.changed if row.token}
        for job in self._jobs:
            job.renumbered = job.renumbered or tokens.get(job.id, job.token) != job.token
            self._mark(job, picture, arrays)
        return moved

    def _row(self, job: Job, row: QueuedJob) -> bool:
        """Whether its state is another than before."""
        if not job.id:
            self._telling.submitted(job, row.id)
        elif job.id != row.id:
            return False  # of two jobs of one attempt the one that took the claim counts
        if row.batch and not job.element:  # an earlier engine's: from now on its number alone is not enough
            self._jobs.put(job, f"{row.batch}_{row.id.partition('_')[2]}")
        moved, job.state = job.state != row.state, row.state
        job.nodes, job.reason = row.nodes or job.nodes, row.reason
        now = stand(row.state)
        if now == "pending":
            self._telling.pending(job, row.reason or row.state, row.start)
            self._warn(job, row)
        if now == "over":
            self._cancelling.over(row.id)
            self._judging.over(job)
        else:
            job.over_since = None
        return moved

    def _warn(self, job: Job, row: QueuedJob) -> None:
        never = never_starts(row.reason)
        if never and row.reason not in self._noted:
            self._noted.add(row.reason)
            task = job.order.job.task if job.order is not None and job.order.job is not None else row.name
            self._note(f"{task}: Slurm will not start job {row.id} as it is ({row.reason}): {never}", "warning")

    def _mark(self, job: Job, picture: Picture, arrays: Collection[str]) -> None:
        """Note whether the queue shows it, where it should. *arrays*: numbers of those of which it shows elements."""
        if job.stage in ("queued", "sending"):
            return
        if (job.id in picture.ids and not job.renumbered) or job.over_since is not None:
            job.absent, job.shown_gone = None, False
        elif picture.asked_at > max(job.since, job.shown_at + _SHOWN_S):
            job.absent = (job.absent[0] if job.absent else picture.asked_at, picture.asked_at)
            job.array_stays = "_" in job.id and job.id.partition("_")[0] in arrays
            self._judging.suspect(job)
