"""What the queue, the accounting and heartbeats say of jobs, where their wrappers say nothing.

Slurm's word explains the want of a wrapper's; it never overrules it. A call that failed says nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from signal import SIGKILL

from .accounting import Accounting
from .asking import Picture
from .cancelling import Cancelling
from .control import Control
from .ends import UNABLE, Ends
from .jobs import Job, Jobs
from .limits import Limits
from .parse import AccountedJob, QueuedJob
from .states import cause_of, in_words, stand, word
from .telling import Telling

_LOST = "Slurm does not know it any more, and it wrote no exit code"


class Judging:
    """All calls on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: Jobs,
        telling: Telling,
        control: Control,
        cancelling: Cancelling,
        accounting: Accounting,
        *,
        limits: Limits,
        note: Callable[[str, str], None],
        now: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._jobs = jobs
        self._telling = telling
        self._control = control
        self._cancelling = cancelling
        self._accounting = accounting
        self._limits = limits
        self._note = note
        self._now = now
        self._suspects: dict[Job, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._voided: dict[str, str] = {}
        """Tokens of which nothing will run, also by element: what of them shows up in the queue leaves it again."""
        self._leaving: dict[str, str] = {}
        """Tokens of jobs that are to leave it, by id."""
        self.message_timeout_s = limits.message_timeout_s
        self.ends: Ends | None = None

    @property
    def pressing(self) -> bool:
        return bool(self._suspects)

    def suspect(self, job: Job) -> None:
        """Something is wrong with it."""
        if job.stage != "gone":
            self._suspects[job] = None
            self._arm()

    def unclear(self, job: Job) -> None:
        """It was ended by somebody else."""
        job.end_since = self._now()
        self.suspect(job)

    def void(self, job: Job) -> None:
        """Nothing of it runs: its job, if there is one, leaves the queue."""
        self._voided[job.token] = job.token
        if job.element:
            self._voided[job.element] = job.token
        if job.id and stand(job.state) != "over":
            self._leave(job.id, job.token)

    def is_void(self, token: str) -> bool:
        """Whether its claim must stay: a job of it may yet begin."""
        return token in self._voided

    def left(self, job_id: str) -> None:
        """A job is out of the queue."""
        token = self._leaving.pop(job_id, None)
        if token is not None:
            self._voided = {key: value for key, value in self._voided.items() if value != token}
            self._control.forget(token)

    def _leave(self, job_id: str, token: str) -> None:
        self._leaving[job_id] = token
        self._cancelling.add(job_id)

    def looked(self, picture: Picture) -> bool:
        """Take a picture of the queue in; whether anything of ours has moved."""
        moved = False
        for row in picture.changed:
            job = self._jobs.of(row)
            if job is None:
                self._stray(row)
            else:
                moved = self._row(job, row) or moved
        for job in self._jobs:
            self._mark(job, picture)
        return moved

    def close(self) -> None:
        """Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stray(self, row: QueuedJob) -> None:
        over = stand(row.state) == "over"
        element = f"{row.batch}_{row.id.partition('_')[2]}" if row.batch else row.token
        if over:
            self._cancelling.over(row.id)
        elif element and (token := self._voided.get(element)):
            self._leave(row.id, token)

    def _row(self, job: Job, row: QueuedJob) -> bool:
        """Whether its state is another than before."""
        if not job.id:
            self._telling.submitted(job, row.id)
        elif job.id != row.id:
            return False  # of two jobs of one attempt the one that took the claim counts
        moved, job.state = job.state != row.state, row.state
        job.nodes = row.nodes or job.nodes
        now = stand(row.state)
        if now == "pending":
            self._telling.pending(job, row.reason or row.state, row.start)
        if now == "over":
            self._cancelling.over(row.id)
            self._over(job)
        else:
            job.over_since = None
        return moved

    def _over(self, job: Job) -> None:
        if job.over_since is None:
            job.over_since = self._now()
        self.suspect(job)

    def _mark(self, job: Job, picture: Picture) -> None:
        """Note whether the queue shows it, where it should."""
        if job.stage in ("queued", "sending"):
            return
        if job.id in picture.ids or job.over_since is not None:
            job.absent = None
        elif picture.asked_at > job.since:
            job.absent = (job.absent[0] if job.absent else picture.asked_at, picture.asked_at)
            self.suspect(job)

    # -- judgement ----------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(self._limits.judge_s, self._judge_all)

    def _judge_all(self) -> None:
        self._timer = None
        for job in list(self._suspects):
            fine = job.over_since is None and job.absent is None and job.end is None and job.stage != "doubt"
            if job.stage == "gone" or fine:
                del self._suspects[job]
            elif not job.busy:
                self._judge(job)
        if self._suspects:
            self._arm()

    def _judge(self, job: Job) -> None:
        if job.end is not None:
            self._explain_end(job)
        elif job.stage == "doubt":
            if self._absent_for(job) >= 2 * self.message_timeout_s:
                self._claim(job, partial(self._telling.never_ran, job))
        elif job.over_since is not None:
            self._judge_over(job)
        else:
            self._judge_vanished(job)

    def _absent_for(self, job: Job) -> float:
        return job.absent[1] - job.absent[0] if job.absent is not None else -1.0

    def _explain_end(self, job: Job) -> None:
        """Its wrapper wrote its end; what Slurm says of it is waited for, but not for ever."""
        late = self._now() - job.end_since >= self._limits.word_s
        if (job.over_since is not None or late) and self.ends is not None:
            self.ends.tell(job, cause_of(job.state), in_words(job.state, job.nodes) if cause_of(job.state) else "")

    def _judge_over(self, job: Job) -> None:
        """Slurm says that it is over, and its wrapper nothing."""
        since = self._now() - (job.over_since or 0.0)
        if job.stage == "waiting" and not job.claimed:
            self._claim(job, partial(self._tell_unbegun, job))
        elif cause_of(job.state) == "node_fail":
            self._kill_rest(job, f"Slurm says {word(job.state)} of {job.nodes or job.id}: waiting for its processes")
            self._when_stale(job, partial(self._tell_over, job))
        elif since >= self._limits.settle_s:
            self._tell_over(job)

    def _tell_over(self, job: Job) -> None:
        cause = cause_of(job.state)
        detail = in_words(job.state, job.nodes)
        self._telling.over(
            job, None, cause=cause, detail=detail if cause else f"{detail}, and no exit code was written"
        )

    def _tell_unbegun(self, job: Job) -> None:
        """It is over, and ran nothing."""
        cause = cause_of(job.state)
        detail = in_words(job.state, job.nodes)
        if cause:
            self._telling.over(job, None, cause=cause, detail=detail)
            return
        where = f"on {job.nodes}" if job.nodes else "where it ran"
        why = f"its job began nothing ({detail}): see its log, and whether {self._control.folder} is there {where}"
        self._telling.over(job, UNABLE, spawn_error=why)

    def _judge_vanished(self, job: Job) -> None:
        if not job.looked_up and self._accounting.usable:
            job.busy = True
            self._accounting.ask(job.id, partial(self._accounted, job))
        elif self._absent_for(job) < self._limits.vanished_s:
            pass
        elif job.stage == "waiting" and not job.claimed:
            self._claim(job, partial(self._telling.never_ran, job))
        else:
            # While its heart beats it may run on, and nothing says that it should not.
            self._when_stale(job, partial(self._lost, job))

    def _lost(self, job: Job) -> None:
        self._control.stop(job.token, SIGKILL, 0.0, "group")
        self._telling.over(job, None, detail=_LOST)

    def _accounted(self, job: Job, found: AccountedJob | None) -> None:
        """What sacct knows; it may be some seconds late."""
        job.busy = False
        job.looked_up = self._absent_for(job) >= self._limits.vanished_s
        if found is not None and stand(found.state) == "over":
            job.state, job.nodes = found.state, found.nodes or job.nodes
            self._over(job)

    def _claim(self, job: Job, then: Callable[[], None]) -> None:
        """Make sure that nothing of it runs, now or later, *then* go on; unless a job has taken its claim."""
        job.busy = True
        self._control.void(job.token, partial(self._claimed, job, then))

    def _claimed(self, job: Job, then: Callable[[], None], free: bool | None) -> None:
        job.busy = False
        if job.stage == "gone" or free is None:
            return
        if free:
            self.void(job)
            then()
            return
        job.claimed = True
        if job.stage == "doubt":
            self._control.claimed_by(job.token, partial(self._found, job))

    def _found(self, job: Job, job_id: str | None) -> None:
        if job_id and job.stage == "doubt":
            self._telling.submitted(job, job_id)
        elif job_id == "" and job.stage == "doubt":
            # Whoever took it was gone, or its disk full, before it said who it is: it ran nothing, and no other will.
            self._when_stale(job, partial(self._telling.never_ran, job))

    def _kill_rest(self, job: Job, why: str) -> None:
        """On a node that Slurm has lost sight of processes may live."""
        if not job.killed:
            job.killed = True
            self._note(why, "warning")
            self._control.stop(job.token, SIGKILL, 0.0, "group")

    def _when_stale(self, job: Job, then: Callable[[], None]) -> None:
        """Go on once its heartbeat has not been written for long, by our clock."""
        job.busy = True
        self._control.beats((job.token,), partial(self._beat, job, then))

    def _beat(self, job: Job, then: Callable[[], None], beats: Mapping[str, float] | None) -> None:
        job.busy = False
        if beats is None or job.stage == "gone" or job.end is not None:
            return
        written = beats[job.token]
        if job.beat is None or job.beat[0] != written:
            job.beat = (written, self._now())
        elif self._now() - job.beat[1] >= self._limits.stale_s:
            then()
