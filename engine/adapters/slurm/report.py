"""What the engine is told of jobs: each thing once, in an order that makes sense."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...core.inputs import LeaderExited, Pending, Spawned, SpawnRefused, Submitted, TreeGone
from ...core.outcome import Cause
from ...ports import Sink
from .jobs import Job, Jobs
from .parse import expand_nodes
from .states import never_starts

_SHIFT_S = 60.0
"""An expected start that moves by less is no news."""


class Report:
    """Moves jobs from stage to stage, and says so."""

    def __init__(self, jobs: Jobs, sink: Sink, now: Callable[[], float]) -> None:
        self._jobs = jobs
        self._sink = sink
        self._now = now

    def submitted(self, job: Job, job_id: str) -> None:
        """It is in the queue. Told again with another id: that is the one that runs."""
        if job.id == job_id or job.stage == "gone":
            return
        self._jobs.name(job, job_id)
        if job.stage in ("queued", "sending", "doubt"):
            self._jobs.move(job, "waiting")
        self._sink(Submitted(job.token, job_id))
        if job.stage == "waiting" and job.told_why:
            self.pending(job, "", None)

    def held(self, job: Job, why: str) -> None:
        """It is not in the queue yet."""
        if job.stage in ("queued", "doubt") and why != job.told_why:
            job.told_why = why
            self._sink(Pending(job.token, why))

    def pending(self, job: Job, why: str, begins: float | None) -> None:
        if job.stage != "waiting" or (why == job.told_why and not _moved(begins, job.told_begins)):
            return
        job.told_why, job.told_begins = why, begins
        never = never_starts(why)
        self._sink(Pending(job.token, f"{why}: {never}" if never else why, begins))

    def began(self, job: Job, job_id: str, wall: float, nodes: tuple[str, ...]) -> None:
        """Its wrapper began at *wall*; 0: nobody knows when."""
        if job.stage in ("running", "gone"):
            return
        if job_id:
            self.submitted(job, job_id)
        self._jobs.move(job, "running")
        self._sink(Spawned(job.token, at=self._at(wall), nodes=nodes, job=job.id))

    def over(
        self,
        job: Job,
        code: int | None,
        *,
        wall: float = 0.0,
        spawn_error: str = "",
        cause: Cause = "",
        detail: str = "",
        nodes: tuple[str, ...] = (),
        by_itself: bool = False,
    ) -> None:
        """It ended, at *wall* as its node counts, and nothing of it lives. *nodes*: on which it ran nothing."""
        if job.stage == "gone":
            return
        if job.claimed or job.end is not None:  # it has begun, though nobody has seen when
            self.began(job, "", wall, expand_nodes(job.nodes))
        self._jobs.remove(job)
        at = self._at(wall)
        self._sink(
            LeaderExited(
                job.token, code, at, spawn_error=spawn_error, cause=cause, detail=detail, nodes=nodes,
                by_itself=by_itself,
            )
        )  # fmt: skip
        self._sink(TreeGone(job.token, self._now()))

    def refused(self, job: Job, why: str) -> None:
        """No job of it came to be, for a want on this side that may pass."""
        if job.stage == "gone":
            return
        self._jobs.remove(job)
        self._sink(SpawnRefused(job.token, why))

    def never_ran(self, job: Job, why: str = "") -> None:
        """Nothing of it was or will be executed."""
        if job.stage == "gone":
            return
        self._jobs.remove(job)
        self._sink(TreeGone(job.token, self._now(), never_ran=True, why=why))

    def _at(self, wall: float) -> float:
        """A node's wall time by our clock that never jumps; clocks of two machines need not agree."""
        return self._now() - (max(0.0, time.time() - wall) if wall else 0.0)


def _moved(begins: float | None, before: float | None) -> bool:
    if begins is None or before is None:
        return begins is not before
    return abs(begins - before) >= _SHIFT_S
