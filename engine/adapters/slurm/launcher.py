"""Attempts as jobs of a Slurm cluster: all that is asked, written and told. What to do next says `next_step`."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from signal import SIGKILL, Signals
from typing import TypeVar

from ...core.events import Fate
from ...core.inputs import LeaderExited, Pending, Spawned, SpawnRefused, Submitted, TreeGone
from ...core.spec import StopScope
from ...ports import Known, Sink, StartOrder
from ..background import Background, within
from ..host import boottime_s
from ..inotify import Arrivals
from ..programs import NOT_BEGUN, Answer
from . import jobfiles
from .calls import QUERY_S, SHOW_S, Calls, Queue, Shown, look_at_queue, show_jobs, why_silent
from .job import Job, Seen, Stage, Stop, recovered
from .jobfiles import UNABLE, VOID, Files, Left, Wanted
from .next_step import Kill, Limits, Step, next_step
from .parse import SACCT, SQUEUE, SlurmJob, Submission, is_full, sacct_jobs
from .states import never_starts, stand
from .submission import Outbox, anywhere, longest_s, submit, told_anywhere

SHORTEST_S, LONGEST_S = 2.0, 60.0
"""Between looks at the queue."""
_SHARE = 5.0
"""So many times what a call took lie between it and the next."""
_LOOK_S, _NETWORK_LOOK_S = 2.0, 0.5
"""Between looks at the folder where nothing tells of it."""
_GATHER_S = 0.05
"""For how long jobs gather for a call that serves many."""
_FORGET_S = 0.5
_TOLD_S = 60.0
"""After which the numbers that Slurm gave an array are on disk."""
_SBATCH_AT_ONCE = 4
_FOLDER_S = 20.0
"""What the folder is waited for."""
_LEFT_S, _LAST_S = 10.0, 2.0
"""Likewise at the start, and at the end."""
_ACCOUNTS_S = SHORTEST_S
"""Between one call of sacct and the next."""
_SCANCEL_S = 120.0
_SHOWN_AT_ONCE = 100
"""A call each, since Slurm shows one at a time."""
_MESSAGE_TIMEOUT = re.compile(r"^MessageTimeout\s*=\s*(\d+)", re.MULTILINE)
_ACCOUNTS_OFF = "accounting storage is disabled"
_FAILED = "Batch job submission failed: "

_T = TypeVar("_T")


class SlurmLauncher:
    """`ports.Launcher` for a cluster. An attempt's wrapper tells how it went by files in a folder that nodes and
    engine share, see `jobfiles`; Slurm is asked for what they do not tell. All calls on the loop's thread."""

    def __init__(
        self,
        control: str,
        sink: Sink,
        loop: asyncio.AbstractEventLoop,
        *,
        environ: Mapping[str, str],
        note: Callable[[str, str], None],
        on_network: bool,
        now: Callable[[], float] = boottime_s,
        limits: Limits | None = None,
    ) -> None:
        """*control*: the folder of those files, which is made. *environ*: where Slurm's programs find themselves and
        their cluster. *note* (text, level) is told what people should know. *on_network*: a file server is behind the
        folder."""
        os.makedirs(control, mode=0o700, exist_ok=True)
        self._folder, self._sink, self._loop, self._note, self._now = control, sink, loop, note, now
        self._on_network = on_network
        self._limits = limits or Limits()
        self._closed = False
        self._due: dict[Callable[[], None], asyncio.TimerHandle] = {}
        """What is to be done later."""
        self._calls = Calls(loop, environ)
        self._reading, self._writing = Background(loop), Background(loop)
        self._arrivals = Arrivals(loop, control, self._arrived)
        self._jobs: dict[str, Job] = {}
        """All that have not ended, or have still to leave the queue, by token."""
        self._elements: dict[str, Job] = {}
        """Likewise of arrays, by batch and index: "BATCH_7"."""
        self._outbox = Outbox(self._limits)
        self._sending = 0
        self._watched: dict[Job, None] = {}
        """Those to which time alone may bring something."""
        self._closely: dict[Job, None] = {}
        """Those to look at closely."""
        self._looking = False
        self._look_again = False
        self._cancelling = Gathering(self._later, self._cancel, gather_s=_GATHER_S, most=1000)
        self._gatherings = {
            "claim": Gathering(self._later, self._claim, gather_s=0.0, most=100),
            "account": Gathering(self._later, self._account, gather_s=_GATHER_S, most=500, pause_s=_ACCOUNTS_S),
            "show": Gathering(self._later, self._show, gather_s=0.0, most=_SHOWN_AT_ONCE),
        }
        self._accounts = True
        """Until they are known to be switched off."""
        self._queue = Queue()
        self._asked_at: float | None = None
        self._looked_at = 0.0
        """When the picture of the queue that was seen last was asked for."""
        self._interval_s = SHORTEST_S
        self._queue_free_at = 0.0
        self._silent = False
        self._noted = set[str]()
        """Reasons for which jobs do not start at all, each told once."""
        self._knows_timeout = False
        self._forgotten: dict[str, bool] = {}
        """Whose files are to be removed, and whether the claim stays."""

    # -- the port

    def start(self, order: StartOrder) -> None:
        """See `ports.Launcher`."""
        job = Job(order.token, order)
        self._add(job)
        self._outbox.add(job, self._now())
        if self._now() < self._outbox.free_at:
            self._held(job)
        self._pump()
        self._later(self._look, self._look_s)

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, Fate]:
        """See `ports.Launcher`. What was adopted may turn out to have ended, or not to have run, once Slurm answers."""
        if not attempts:
            return {}
        left = _or_none(partial(within, _LEFT_S, partial(jobfiles.read_left, self._folder, attempts))) or Left()
        fates: dict[str, Fate] = {}
        for known in attempts:
            fates[known.token], job = recovered(known, left)
            self._add(job)
            if job.stage == "doubt":
                self._learn_timeout()
            self._loop.call_soon(self._step, job)
        self._later(self._look, 0.0)
        self._ask_soon()
        return fates

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """See `ports.Launcher`. One that has not begun ends at once."""
        job, kill_at = self._jobs.get(token), self._now() + grace_s
        if job is not None and (job.stop is None or kill_at < job.stop.kill_at):
            job.stop = Stop(signal, kill_at, scope)
            self._step(job)

    def warn(self, token: str, signal: int) -> int:
        """See `ports.Launcher`: 1 where its wrapper was told, which knows who catches it."""
        job = self._jobs.get(token)
        if job is None or job.stage != "running":
            return 0
        self._write(token, "warn", jobfiles.warn_text(_name(signal)))
        return 1

    def gather(self, gpus: Sequence[str], task: str, first: Sequence[str] = ()) -> None:
        """See `ports.Launcher`: Slurm does that."""

    def members(self) -> Mapping[int, str]:
        """See `ports.Launcher`: none is on this box."""
        return {}

    def forget(self, token: str) -> None:
        """See `ports.Launcher`. The script stays; so does a claim that a job may yet look for."""
        self._forget(token, keep_claim=token in self._jobs)

    def close(self) -> None:
        """See `ports.Launcher`. Calls under way go on; jobs that are to be cancelled are asked for now, and nobody
        waits for the answer. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for timer in self._due.values():
            timer.cancel()
        for some in self._cancelling.rest():
            self._calls.leave(("scancel", *(job.id for job in some)))
        self._remove_forgotten()
        for part in (self._arrivals, self._calls, self._reading, self._writing):
            part.close()

    def _later(self, do: Callable[[], None], after_s: float) -> None:
        """*do* it then, or when it was to be done anyway, if that is sooner."""
        timer, at = self._due.get(do), self._loop.time() + after_s
        if self._closed or (timer is not None and timer.when() <= at):
            return
        if timer is not None:
            timer.cancel()
        self._due[do] = self._loop.call_at(at, self._do, do)

    def _do(self, do: Callable[[], None]) -> None:
        del self._due[do]
        do()

    # -- steps

    def _step(self, job: Job) -> None:
        """Do all that is to be done about it now."""
        if self._closed:
            return
        while (step := next_step(job, self._now(), self._limits, self._folder)) != "wait":
            self._take(job, step)
        if job.passes_time:
            self._watched[job] = None
            self._later(self._tick, self._limits.judge_s)
        else:
            self._watched.pop(job, None)

    def _tick(self) -> None:
        for job in list(self._watched):
            self._step(job)

    def _take(self, job: Job, step: Step) -> None:
        match step:
            case "wait":
                pass
            case "look":
                job.asked = True
                self._closely[job] = None
                self._later(self._look, 0.0)
            case "account" if not self._accounts:
                job.seen.accounted = True
            case "claim" | "account" | "show":
                job.asked = True
                self._gatherings[step].add(job)
            case "cancel":
                job.cancelled_at = float("inf")
                self._cancelling.add(job)
            case Stop():
                step.told = True
                left_s = max(0.0, step.kill_at - self._now())
                self._write(job.token, "stop", jobfiles.stop_text(_name(step.signal), left_s, step.scope))
            case "forget":
                self._move(job, "gone")
                self._forget(job.token, keep_claim=False)
            case Kill(why):
                self._kill(job, why)
            case Submitted():
                self._submitted(job, step)
            case Pending():
                job.told = step
                self._sink(step)
            case Spawned():
                self._move(job, "running")
                self._sink(step)
            case LeaderExited():
                self._end(job)
                self._sink(step)
                self._sink(TreeGone(job.token, self._now()))
            case TreeGone():
                self._end(job)
                self._sink(step)

    def _add(self, job: Job) -> None:
        job.since = self._now()
        self._jobs[job.token] = job
        self._put(job, job.element)

    def _put(self, job: Job, element: str) -> None:
        """Make it this element of an array; of none with ""."""
        self._elements.pop(job.element, None)
        job.element = element
        if element:
            self._elements[element] = job

    def _move(self, job: Job, stage: Stage) -> None:
        job.stage, job.since = stage, self._now()
        self._outbox.jobs.pop(job, None)
        if stage == "gone":
            self._jobs.pop(job.token, None)
            self._elements.pop(job.element, None)

    def _end(self, job: Job) -> None:
        """Of one that was made void, or never got a number, a job may still be, or turn up, in the queue."""
        self._move(job, "void" if job.seen.claim == VOID or job.stage == "doubt" else "gone")

    def _submitted(self, job: Job, step: Submitted) -> None:
        job.id, job.seen.renumbered = step.job, False
        if job.seen.row not in ("", job.id):
            job.seen.state, job.seen.over_since = "", None
        if job.stage in ("queued", "sending", "doubt"):
            self._move(job, "waiting")
        if job.stage != "void":
            self._sink(step)

    def _kill(self, job: Job, why: str) -> None:
        told = any(other.killed and other.seen.nodes == job.seen.nodes for other in self._watched)
        if why and not told:
            self._note(why, "warning")
        job.killed = True
        self._write(job.token, "stop", jobfiles.stop_text(_name(SIGKILL), 0.0, "group"))

    # -- the folder

    @property
    def _look_s(self) -> float:
        return _NETWORK_LOOK_S if self._on_network else _LOOK_S

    def _arrived(self, names: set[str] | None) -> None:
        if names is None or any(name.endswith((".began", ".ended")) for name in names):
            self._later(self._look, 0.0)

    def _look(self) -> None:
        if self._looking:
            self._look_again = True
            return
        closely, self._closely = self._closely, {}
        wanted = [
            Wanted(job.token, job.stage == "running", job in closely, job.order)
            for job in self._jobs.values()
            if job in closely or (job.live and job.seen.ended is None)
        ]
        void = {job.token: VOID for job in self._jobs.values() if job.stage == "void"}
        claims = void | {job.token: job.id for job in self._jobs.values() if job.stage == "running" and job.id}
        if not wanted:
            return
        self._looking, self._look_again = True, False
        work = partial(jobfiles.read_files, self._folder, wanted, claims, on_network=self._on_network)
        self._reading.submit(work, partial(self._looked, closely, self._now()), timeout_s=_FOLDER_S)

    def _looked(self, closely: Mapping[Job, None], asked_at: float, found: Mapping[str, Files] | None) -> None:
        self._looking = False
        for job in closely:
            job.asked = False
        for token, files in (found or {}).items():
            if (job := self._jobs.get(token)) is not None:
                job.see_files(files, asked_at=asked_at, now=self._now(), wall=time.time())
                self._step(job)
        self._later(self._look, 0.0 if self._look_again or self._closely else self._look_s)

    def _write(self, token: str, kind: str, text: str) -> None:
        """Where that cannot be done Slurm is what is left."""
        self._do_aside(partial(jobfiles.write, self._folder, token, kind, text))

    def _do_aside(self, work: Callable[[], None]) -> None:
        self._writing.submit(partial(_or_none, work), _ignore, timeout_s=_FOLDER_S)

    def _forget(self, token: str, *, keep_claim: bool) -> None:
        """To list a folder of thousands of files for each of thousands of attempts would take minutes."""
        self._forgotten[token] = keep_claim
        if self._closed:
            self._remove_forgotten()
        else:
            self._later(self._remove_forgotten, _FORGET_S)

    def _remove_forgotten(self) -> None:
        tokens, self._forgotten = self._forgotten, {}
        work = partial(jobfiles.remove, self._folder, tokens)
        if not tokens:
            return
        if self._closed:
            _or_none(partial(within, _LAST_S, work))
        else:
            self._do_aside(work)

    def _claim(self, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        """Take their claims, or learn who has them. What cannot be told is asked again."""

        def work() -> list[str | None]:
            return [_or_none(partial(jobfiles.void, self._folder, job.token)) for job in jobs]

        def told(claims: list[str | None] | None) -> None:
            done()
            for job, claim in zip(jobs, claims or [None] * len(jobs), strict=True):
                job.asked = False
                if claim is not None and job.stage != "gone":
                    job.see_claim(claim)
                    self._step(job)

        self._writing.submit(work, told, timeout_s=_FOLDER_S)

    # -- the queue

    def _ask_soon(self) -> None:
        """Something has changed, or will: look at the queue as early as one may."""
        self._interval_s = SHORTEST_S
        if self._asked_at is None:
            self._later(self._ask_queue, max(0.0, self._queue_free_at - self._loop.time()))

    def _ask_queue(self) -> None:
        now = self._now()
        if not any(job.expected(now) for job in self._jobs.values()):
            return
        self._asked_at = now
        work = partial(look_at_queue, (*SQUEUE, "-u", str(os.getuid())), self._calls.environ, self._queue.lines)
        self._calls.work(work, partial(self._queue_seen, now), timeout_s=QUERY_S)

    def _queue_seen(self, asked_at: float, queue: Queue | None) -> None:
        self._asked_at = None
        answer = queue.answer if queue is not None else Answer(None, "", "it hangs", QUERY_S)
        pause_s = max(SHORTEST_S, _SHARE * answer.took_s)
        self._queue_free_at = self._loop.time() + pause_s
        if queue is not None and answer.ok:
            if self._silent:
                self._silent = False
                self._note("Slurm answers again", "info")
            self._queue = queue
            self._see(queue, asked_at)
        elif not self._silent:
            self._silent = True
            self._note(f"Slurm does not answer ({why_silent('squeue', answer)}): what runs goes on", "warning")
        if self._outbox.jobs or any(job.unclear for job in self._watched):
            self._interval_s = SHORTEST_S
        self._later(self._ask_queue, max(self._interval_s, pause_s))
        self._interval_s = min(2 * self._interval_s, LONGEST_S)

    def _see(self, queue: Queue, asked_at: float) -> None:
        now = self._now()
        for row in queue.changed:
            job = self._of(row)
            if job is None:
                continue
            if job.see_row(row, now):
                self._interval_s = SHORTEST_S
            if row.batch and not job.element:  # an earlier engine's: from now on its number alone is not enough
                self._put(job, f"{row.batch}_{row.id.partition('_')[2]}")
            self._step(job)
            self._warn_of(job, row)
        tokens = {row.id: row.token for row in queue.changed if row.token}
        for job in list(self._jobs.values()):
            job.seen.renumbered = tokens[job.id] != job.token if job.id in tokens else job.seen.renumbered
            job.see_queue(queue, asked_at)
            if job.seen.absent is not None or job.stage == "void":
                self._step(job)
        self._looked_at = asked_at
        self._outbox.room(self._under_way())
        self._pump()

    def _of(self, row: SlurmJob) -> Job | None:
        """The one that a line of the queue is about. A number alone proves nothing, for a controller that lost its
        state gives them out again; but for an earlier engine's, of an array that nobody remembers."""
        if not row.batch:
            return self._jobs.get(row.token)
        element = self._elements.get(f"{row.batch}_{row.id.partition('_')[2]}")
        return element or next((job for job in self._jobs.values() if job.id == row.id and not job.element), None)

    def _warn_of(self, job: Job, row: SlurmJob) -> None:
        never = never_starts(row.reason) if stand(row.state) == "pending" else ""
        if never and row.reason not in self._noted:
            self._noted.add(row.reason)
            task = job.order.job.task if job.order is not None and job.order.job is not None else row.name
            self._note(f"{task}: Slurm will not start job {row.id} as it is ({row.reason}): {never}", "warning")

    # -- Slurm's other programs

    def _account(self, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        """What became of them, by sacct, where a cluster keeps accounts: one call, no oftener than the queue is
        looked at."""
        ids = ",".join(dict.fromkeys(job.id for job in jobs))
        call = (*SACCT, "-D", "-S", "now-60days", "-j", ids)
        self._calls.run(call, partial(self._accounted, jobs, done), timeout_s=QUERY_S)

    def _accounted(self, jobs: Sequence[Job], done: Callable[[], None], answer: Answer) -> None:
        done()
        if _ACCOUNTS_OFF in answer.err or answer.code == NOT_BEGUN:
            self._accounts = False
        found: dict[str, list[SlurmJob]] = {}
        for row in sacct_jobs(answer.out) if answer.ok else ():
            found.setdefault(row.id, []).append(row)
        for job in jobs:
            job.asked = False
            job.see_accounts(found.get(job.id, ()), self._now(), vanished_s=self._limits.vanished_s)
            self._step(job)

    def _show(self, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        """Whether the controller has them though the queue does not show them: sites let squeue answer from what it
        saw before."""
        asked = [(job.id, job.comment) for job in jobs]
        work = partial(show_jobs, asked, self._calls.environ)
        self._calls.work(work, partial(self._shown, jobs, done), timeout_s=SHOW_S * len(jobs))

    def _shown(self, jobs: Sequence[Job], done: Callable[[], None], found: Sequence[Shown] | None) -> None:
        done()
        for place, job in enumerate(jobs):
            job.asked = False
            job.see_shown(found[place] if found and place < len(found) else "silent", self._now())
            self._step(job)

    def _cancel(self, jobs: Sequence[Job], done: Callable[[], None]) -> None:
        """An exit code other than 0 may be about one of them: those that stay listed are asked for again."""

        def told(_: Answer) -> None:
            done()
            for job in jobs:
                job.cancelled_at = self._now()
                self._step(job)

        self._calls.run(("scancel", *(job.id for job in jobs)), told, timeout_s=_SCANCEL_S)

    def _learn_timeout(self) -> None:
        """A submission in doubt may be under way for as long as Slurm's messages may take."""
        if not self._knows_timeout:
            self._knows_timeout = True
            self._calls.run(("scontrol", "show", "config"), self._configured, timeout_s=QUERY_S)

    def _configured(self, answer: Answer) -> None:
        found = _MESSAGE_TIMEOUT.search(answer.out)
        self._knows_timeout = found is not None
        if found is not None:
            self._limits = replace(self._limits, message_timeout_s=float(found[1]))

    # -- submissions

    def _under_way(self) -> int:
        """Jobs of ours that Slurm has."""
        return sum(job.stage in ("waiting", "running") for job in self._jobs.values())

    def _pump(self) -> None:
        """A few calls of sbatch at once, each attempt in one of them at a time."""
        while self._sending < _SBATCH_AT_ONCE and (batch := self._outbox.next(self._now(), self._looked_at)):
            self._send(batch)
        due = self._outbox.due(self._now())
        if due is not None:
            self._later(self._pump, due - self._now())

    def _send(self, batch: Sequence[Job]) -> None:
        token = os.urandom(12).hex() if len(batch) > 1 else ""
        for index, job in enumerate(batch):
            self._move(job, "sending")
            self._put(job, f"{token}_{index}" if token else "")
        self._sending += 1
        orders = [job.order for job in batch if job.order is not None]
        work = partial(submit, orders, token, self._folder, self._calls.environ)
        self._calls.work(work, partial(self._answered, batch), timeout_s=longest_s(orders))

    def _answered(self, batch: Sequence[Job], answer: Submission | None) -> None:
        self._sending -= 1
        sent = [job for job in batch if job.stage == "sending"]
        answer = answer or Submission("doubt")
        match answer.kind:
            case "taken":
                if answer.anywhere:
                    self._anywhere(batch)
                self._taken(batch, answer.job_id)
            case "unwritten":
                for job in sent:
                    self._move(job, "gone")
                    self._sink(SpawnRefused(job.token, answer.why))
            case "busy":
                self._busy(sent, len(batch), answer.why)
            case "unbegun":
                self._refused(sent, f"sbatch cannot be run ({answer.why})")
            case "no":
                self._never(sent, len(batch), answer.why)
            case "doubt":
                self._unknown(batch, answer.why)
        for job in batch:
            self._step(job)
        self._ask_soon()
        self._pump()

    def _taken(self, batch: Sequence[Job], job_id: str) -> None:
        self._outbox.taken()
        array = batch[0].element.partition("_")[0]
        if array:
            self._later(partial(self._forget, array, keep_claim=False), _TOLD_S)
        for job in batch:
            index = job.element.partition("_")[2]
            if job.stage != "running":  # its wrapper may have been quicker than the answer
                job.seen.id = f"{job_id}_{index}" if index else job_id

    def _anywhere(self, batch: Sequence[Job]) -> None:
        self._note(told_anywhere(batch), "warning")
        for job in batch:
            job.order = job.order and anywhere(job.order)

    def _busy(self, sent: Sequence[Job], count: int, why: str) -> None:
        """Under a limit fewer may be taken at once, or the next as another ends."""
        full = is_full(why)
        fewer = full and self._outbox.singly(count)
        self._outbox.full = self._under_way() if full else None
        self._refused(sent, f"Slurm takes no job for now ({why.removeprefix(_FAILED)})", hold=not fewer)

    def _never(self, sent: Sequence[Job], count: int, why: str) -> None:
        """It may be the array that is refused."""
        if self._outbox.singly(count):
            self._back(sent)
            return
        for job in sent:
            self._move(job, "gone")
            self._sink(LeaderExited(job.token, UNABLE, self._now(), spawn_error=f"sbatch: {why}"))
            self._sink(TreeGone(job.token, self._now()))

    def _refused(self, sent: Sequence[Job], why: str, *, hold: bool = True) -> None:
        """Not now: the same attempts again later, first in line, once the queue was seen without them. *hold*: and
        after a pause."""
        for job in sent:
            job.refused_at = self._now()
        self._back(sent)
        self._outbox.why = why
        if hold:
            count = len(self._outbox.jobs)
            self._hold(why, "1 waits" if count == 1 else f"{count} wait")
        for job in self._outbox.jobs:
            self._held(job)

    def _back(self, sent: Sequence[Job]) -> None:
        """What the queue showed of them was what Slurm refused."""
        for job in sent:
            job.seen = Seen()
            self._move(job, "queued")
        self._outbox.again(sent)

    def _unknown(self, batch: Sequence[Job], why: str) -> None:
        """There may be a job of it: it is not submitted again."""
        for job in batch:
            if job.stage == "sending":
                self._move(job, "doubt")
        self._learn_timeout()
        self._hold(f"sbatch gave no answer{f' ({why})' if why else ''}", "whether there is a job is being looked up")
        for job in (*batch, *self._outbox.jobs):
            self._held(job)

    def _hold(self, why: str, what: str) -> None:
        if note := self._outbox.hold(why, what, self._now()):
            self._note(note, "warning")

    def _held(self, job: Job) -> None:
        """It is not in the queue yet, and why."""
        why = self._outbox.why
        if job.stage in ("queued", "doubt") and (job.told is None or why != job.told.why):
            job.told = Pending(job.token, why)
            self._sink(job.told)


class Gathering:
    """Jobs that one call serves at a time: those that ask meanwhile share the next."""

    def __init__(
        self,
        later: Callable[[Callable[[], None], float], None],
        call: Callable[[Sequence[Job], Callable[[], None]], None],
        *,
        gather_s: float,
        most: int,
        pause_s: float = 0.0,
    ) -> None:
        """*call* begins one for some jobs, *most* at once; its second argument is called once it is over. *pause_s*:
        between one and the next."""
        self._later = later
        self._call = call
        self._gather_s = gather_s
        self._most = most
        self._pause_s = pause_s
        self._jobs: dict[Job, None] = {}
        self._busy = False

    def add(self, job: Job) -> None:
        """Idempotent."""
        self._jobs[job] = None
        if not self._busy:
            self._later(self._begin, self._gather_s)

    def rest(self) -> list[list[Job]]:
        """Those for whom no call was begun, in portions for one each."""
        jobs = list(self._jobs)
        return [jobs[first : first + self._most] for first in range(0, len(jobs), self._most)]

    def _begin(self) -> None:
        some = list(self._jobs)[: self._most]
        if self._busy or not some:
            return
        for job in some:
            del self._jobs[job]
        self._busy = True
        self._call(some, self._done)

    def _done(self) -> None:
        self._later(self._free, self._pause_s)

    def _free(self) -> None:
        self._busy = False
        self._begin()


def _name(signal: int) -> str:
    return Signals(signal).name.removeprefix("SIG")


def _or_none(work: Callable[[], _T]) -> _T | None:
    try:
        return work()
    except (OSError, RuntimeError):  # or there are as many threads as the user, or the cgroup, may have
        return None


def _ignore(_: object) -> None:
    pass
