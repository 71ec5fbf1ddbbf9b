"""What the queue says of our jobs; and what it, the accounting and heartbeats say of those whose wrappers say nothing.

Slurm's word explains the want of a wrapper's; it never overrules it. A call that failed says nothing at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from signal import SIGKILL

from .accounting import Accounting, Showing, Shown
from .control import Control
from .ends import UNABLE, Ends, says_memory
from .jobs import Job, Jobs, Limits, is_of
from .parse import AccountedJob, QueuedJob, expand_nodes
from .queue_poller import Picture
from .report import Report
from .states import accounted, cause_of, in_words, never_starts, stand, word
from .stopping import Removals

_NEVER_SATISFIED = "DependencyNeverSatisfied"
"""Of jobs that `gpudeck submit` let wait for others: whether the task can run is the deck's to say."""
_SHOWN_S = 60.0
"""So long the controller's word on a job stands against a queue that does not show it."""
_LOST = "Slurm does not know it any more, and it wrote no exit code"
_OOM = "OUT_OF_MEMORY"
_NO_JOB = "sbatch gave no answer, and Slurm has no job of it"


class Decider:
    """Decides what became of a job. All calls on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: Jobs,
        report: Report,
        control: Control,
        ends: Ends,
        removals: Removals,
        accounting: Accounting,
        showing: Showing,
        *,
        limits: Limits,
        note: Callable[[str, str], None],
        now: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._jobs = jobs
        self._report = report
        self._control = control
        self._ends = ends
        self._removals = removals
        self._accounting = accounting
        self._showing = showing
        self._limits = limits
        self._note = note
        self._now = now
        self._noted = set[str]()
        """Reasons for which jobs do not start at all, each told once."""
        self._suspects: dict[Job, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.message_timeout_s = limits.message_timeout_s

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

    def close(self) -> None:
        """Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def looked(self, picture: Picture) -> bool:
        """Take a picture of the queue in; whether anything of ours has moved."""
        moved = False
        for row in picture.changed:
            job = self._jobs.of(row)
            if job is None:
                self._removals.stray(row)
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
            self._report.submitted(job, row.id)
        elif job.id != row.id:
            return False  # of two jobs of one attempt the one that took the claim counts
        if row.batch and not job.element:  # an earlier engine's: from now on its number alone is not enough
            self._jobs.put(job, f"{row.batch}_{row.id.partition('_')[2]}")
        moved, job.state = job.state != row.state, row.state
        job.nodes, job.reason = row.nodes or job.nodes, row.reason
        now = stand(row.state)
        if now == "pending":
            self._report.pending(job, row.reason or row.state, row.start)
            self._warn(job, row)
        if now == "over":
            self._removals.over(row.id)
            self._over(job)
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
            self.suspect(job)

    def _over(self, job: Job) -> None:
        """Slurm says that it is over."""
        if job.over_since is None:
            job.over_since = self._now()
            job.beat = None
        self.suspect(job)

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
                self._claim(job, partial(self._report.never_ran, job, _NO_JOB))
        elif job.over_since is not None:
            self._judge_over(job)
        else:
            self._judge_vanished(job)

    def _absent_for(self, job: Job) -> float:
        return job.absent[1] - job.absent[0] if job.absent is not None else -1.0

    def _explain_end(self, job: Job) -> None:
        """Its wrapper wrote its end; what Slurm says of it is waited for, but not for ever."""
        late = self._now() - job.end_since >= self._limits.word_s
        if job.over_since is not None or late:
            self._look_for_memory(job, partial(self._tell_end, job))

    def _tell_end(self, job: Job, memory: bool | None) -> None:
        job.busy = False
        state = _OOM if memory else job.state
        cause = cause_of(state)
        self._ends.tell(job, cause, in_words(state, job.nodes) if cause else "")

    def _judge_over(self, job: Job) -> None:
        """Slurm says that it is over, and its wrapper nothing."""
        if job.stage == "waiting" and not job.claimed:
            self._claim(job, partial(self._tell_unbegun, job))
            return
        if cause_of(job.state) == "node_fail":
            self._kill_rest(job)
        self._when_stale(job, partial(self._look_for_memory, job, partial(self._no_word, job, self._tell_over)))

    def _no_word(self, job: Job, tell: Callable[[Job, bool | None], None], memory: bool | None = None) -> None:
        """*tell* of its end, unless its wrapper has done so meanwhile."""
        job.busy = True
        self._ends.look_for(job, partial(self._none_there, job, tell, memory))

    def _none_there(self, job: Job, tell: Callable[[Job, bool | None], None], memory: bool | None, seen: bool) -> None:
        job.busy = False
        if seen and job.end is None and job.stage != "gone":
            tell(job, memory)

    def _tell_over(self, job: Job, memory: bool | None) -> None:
        if job.over_since is None:  # it runs again
            return
        state = _OOM if memory else job.state
        cause, detail = cause_of(state), in_words(state, job.nodes)
        detail = detail if cause else f"{detail}{_because(job)}, and no exit code was written"
        self._report.over(job, None, cause=cause, detail=detail)

    def _tell_unbegun(self, job: Job) -> None:
        """It is over, and ran nothing."""
        if job.reason == _NEVER_SATISFIED:
            self._report.never_ran(job, "what its job waited for has failed, and Slurm took it off the queue")
            return
        cause, detail = cause_of(job.state), in_words(job.state, job.nodes)
        nodes = expand_nodes(job.nodes)
        if cause and cause != "launch":
            self._report.over(job, None, cause=cause, detail=detail, nodes=nodes)
            return
        where = f"on {job.nodes}" if job.nodes else "where it ran"
        detail += _because(job)
        why = f"its job began nothing ({detail}): see its log, and whether {self._control.folder} is there {where}"
        self._report.over(job, UNABLE, spawn_error=why, nodes=nodes)

    def _look_for_memory(self, job: Job, then: Callable[[bool | None], None]) -> None:
        """A job that Slurm kills for its memory may fail like any other: its log tells."""
        order = job.order
        if cause_of(job.state) or order is None:
            then(None)
            return
        job.busy = True
        self._control.read(partial(says_memory, order.stderr, order.stdout), then)

    def _judge_vanished(self, job: Job) -> None:
        if not job.looked_up and self._accounting.usable:
            job.busy = True
            self._accounting.ask(job.id, partial(self._accounted, job))
        elif self._absent_for(job) < self._limits.vanished_s:
            pass
        elif job.id and not job.shown_gone:
            job.busy = True
            self._showing.ask(job, partial(self._shown, job))
        elif job.stage == "waiting" and not job.claimed:
            self._claim(job, partial(self._tell_forgotten, job))
        else:
            # While its heart beats it may run on, and nothing says that it should not.
            self._when_stale(job, partial(self._no_word, job, self._lost))

    def _shown(self, job: Job, shown: Shown) -> None:
        job.busy = False
        job.shown_gone = shown == "gone"
        if shown == "there":
            job.shown_at = self._now()
        if shown != "gone":
            job.absent, job.looked_up = None, False

    def _tell_forgotten(self, job: Job) -> None:
        """It had not begun. Of an element that is cancelled while it waits Slurm keeps no word, and sacct still has it
        as pending; of what a controller has lost it shows nothing of the array."""
        if job.array_stays and stand(job.state) == "pending":
            self._report.over(job, None, cause="cancelled", detail=in_words("CANCELLED"))
        else:
            self._report.never_ran(job, f"Slurm has forgotten job {job.id}, which had not begun")

    def _lost(self, job: Job, _: bool | None) -> None:
        if job.absent is None:  # the queue shows it again
            return
        self._control.stop(job.token, SIGKILL, 0.0, "group")
        self._report.over(job, None, detail=_LOST)

    def _accounted(self, job: Job, found: Sequence[AccountedJob]) -> None:
        """What sacct knows under its number, which others may have had; it may be some seconds late."""
        job.busy = False
        job.looked_up = self._absent_for(job) >= self._limits.vanished_s
        mine = [row for row in found if is_of(row, job)]
        if mine and stand(mine[-1].state) == "over":
            job.state, job.nodes = accounted(mine[-1].state), mine[-1].nodes or job.nodes
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
            self._removals.void(job)
            then()
            return
        job.claimed = True
        if job.stage == "doubt":
            self._control.claimed_by(job.token, partial(self._found, job))

    def _found(self, job: Job, job_id: str | None) -> None:
        if job_id and job.stage == "doubt":
            self._report.submitted(job, job_id)
        elif job_id == "" and job.stage == "doubt":
            # Whoever took it was gone, or its disk full, before it said who it is: it ran nothing, and no other will.
            self._when_stale(job, partial(self._report.never_ran, job, "its job ended before it began anything"))

    def _kill_rest(self, job: Job) -> None:
        """On a node that Slurm has lost sight of processes may live."""
        if job.killed:
            return
        if not any(other.killed and other.nodes == job.nodes for other in self._suspects):
            what = f"{in_words(job.state, job.nodes)}: what may run there"
            if cause_of(job.state) != "node_fail":
                where = f" on {job.nodes}" if job.nodes else ""
                what = f"Slurm says {word(job.state)} of job {job.id}, which goes on{where}: it"
            self._note(f"{what} is told to end, and waited for", "warning")
        job.killed = True
        self._control.stop(job.token, SIGKILL, 0.0, "group")

    def _when_stale(self, job: Job, then: Callable[[], None]) -> None:
        """Go on once its heartbeat has not been written for long, by our clock. What is over by Slurm's word and beats
        is told to end."""
        job.busy = True
        self._control.beats((job.token,), partial(self._beat, job, then))

    def _beat(self, job: Job, then: Callable[[], None], beats: Mapping[str, float] | None) -> None:
        job.busy = False
        if beats is None or job.stage == "gone" or job.end is not None:
            return
        written = beats[job.token]
        if job.beat is None or job.beat[0] != written:
            if job.beat is not None and written and job.over_since is not None:
                self._kill_rest(job)
            job.beat = (written, self._now())
            return
        settles = job.over_since is not None and not job.killed
        if self._now() - job.beat[1] >= (self._limits.settle_s if settles else self._limits.stale_s):
            then()


def _because(job: Job) -> str:
    """Why it waited is not why it ended."""
    return f", {job.reason}" if job.reason not in ("", job.told_why) else ""
