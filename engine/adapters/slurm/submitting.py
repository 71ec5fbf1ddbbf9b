"""Attempts on their way into the queue: sbatch calls, a few at once, each attempt in one of them at a time.

A call whose fate is not known is never repeated: `Decider` finds out whether there is a job, and if there is none makes
sure that none can run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...atomic import write_atomic
from ...ports import StartOrder
from .arrays import ArrayBatching, array_script
from .calls import NOT_BEGUN, Calls, run_program
from .ends import UNABLE
from .jobfiles import map_text, write
from .jobs import Job, Jobs, Limits
from .parse import Refusal, is_full, refusal, submitted_id
from .queue_poller import Picture
from .report import Report
from .script import SBATCH, script, unasked

_AT_ONCE = 4
_TOLD_S = 60.0
"""After which the numbers that Slurm gave are on disk."""
_FAILED = "Batch job submission failed: "


class Submitting:
    """All calls on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        calls: Calls,
        jobs: Jobs,
        report: Report,
        control: str,
        *,
        doubt: Callable[[Job], None],
        late: Callable[[Job], None],
        sent: Callable[[], None],
        forget: Callable[[str], None],
        limits: Limits,
        note: Callable[[str, str], None],
        now: Callable[[], float],
    ) -> None:
        """*doubt* is told of each attempt that may have been submitted; *late* of one that was, and has been given up
        meanwhile; *sent*: something is in the queue that was not; *forget* of an array's token of which all elements
        have long been told."""
        self._loop = loop
        self._calls = calls
        self._jobs = jobs
        self._report = report
        self._control = control
        self._doubt = doubt
        self._late = late
        self._sent = sent
        self._forget = forget
        self._limits = limits
        self._note = note
        self._now = now
        self._queue = jobs.queue
        self._batching = ArrayBatching()
        self._busy = 0
        self._looked_at = 0.0
        self._back_off_s = 0.0
        self._full: int | None = None
        """How many jobs of ours Slurm had when it would take no more of them."""
        self._why_held = ""
        self._told_s = 0.0
        """The longest pause that was told since the queue was empty."""
        self._free_at = 0.0
        self._timers: set[asyncio.TimerHandle] = set()

    def add(self, job: Job) -> None:
        """Submit it as soon as may be; those of an array once others have had the time to join."""
        now = self._now()
        place = self._batching.place(job, now)
        self._queue[job] = place
        if now < self._free_at:
            self._report.held(job, self._why_held)
        if place.not_before > now:
            self._later(place.not_before - now)
        else:
            self._pump()

    def looked(self, picture: Picture) -> None:
        """The queue was seen: what was refused before and is not in it may be tried again."""
        self._looked_at = picture.asked_at
        room = 0 if self._full is None else self._full - self._under_way()
        if room > 0:
            self._full, self._free_at, self._back_off_s = None, 0.0, 0.0
        self._pump()

    def _under_way(self) -> int:
        """Jobs of ours that Slurm has."""
        return sum(job.stage in ("waiting", "running") for job in self._jobs)

    def close(self) -> None:
        """Idempotent. Calls under way go on."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _pump(self) -> None:
        while self._queue and self._busy < _AT_ONCE and self._now() >= self._free_at:
            batch = self._next()
            if not batch:
                return
            self._send(batch)

    def _next(self) -> list[Job]:
        """Whose turn it is: one, or all that may share an array. Empty: all must wait."""
        ready = [
            (job, place)
            for job, place in self._queue.items()
            if job.refused_at is None or self._looked_at > job.refused_at
        ]
        return self._batching.next(ready, self._now())

    def _send(self, batch: list[Job]) -> None:
        token = os.urandom(12).hex() if len(batch) > 1 else ""
        orders = [job.order for job in batch if job.order is not None]
        for index, job in enumerate(batch):
            self._jobs.move(job, "sending")
            self._jobs.put(job, f"{token}_{index}" if token else "")
        self._busy += 1
        self._calls.work(
            partial(submit, orders, token, self._control, self._calls.environ),
            partial(self._answered, batch),
            timeout_s=longest_s(orders),
        )

    def _answered(self, batch: Sequence[Job], answer: Submission | None) -> None:
        self._busy -= 1
        match answer:
            case Taken(job_id, not_avoided):
                if not_avoided:
                    self._anywhere(batch)
                self._taken(batch, job_id)
            case Unwritten(why):
                for job in batch:
                    self._report.refused(job, why)
            case Refusal("busy", why):
                full = is_full(why)
                fewer = full and self._batching.refused(len(batch))
                self._full = self._under_way() if full else None
                words = f"Slurm takes no job for now ({why.removeprefix(_FAILED)})"
                self._refused(batch, words, hold=not fewer)
            case Unbegun(why):
                self._refused(batch, f"sbatch cannot be run ({why})")
            case Refusal("no", _) if self._batching.refused(len(batch)):
                self._again([job for job in batch if job.stage == "sending"])
            case Refusal("no", why):
                for job in batch:
                    self._report.over(job, UNABLE, spawn_error=f"sbatch: {why}")
            case Refusal("doubt", why):
                self._unknown(batch, why)
            case _:
                self._unknown(batch, "")
        self._sent()
        self._pump()

    def _taken(self, batch: Sequence[Job], job_id: str) -> None:
        self._back_off_s = 0.0
        if not self._queue:
            self._told_s = 0.0
        if batch[0].element:
            self._later(_TOLD_S, partial(self._forget, batch[0].element.partition("_")[0]))
        for job in batch:
            index = job.element.partition("_")[2]
            mine = f"{job_id}_{index}" if index else job_id
            if job.stage == "gone" and job.id == mine:  # its wrapper was quicker than the answer
                continue
            if job.stage == "gone":
                job.id = job.id or mine
                self._late(job)
            else:
                self._report.submitted(job, mine)

    def _anywhere(self, batch: Sequence[Job]) -> None:
        self._note(told_anywhere(batch), "warning")
        for job in batch:
            job.order = job.order and anywhere(job.order)

    def _refused(self, batch: Sequence[Job], why: str, *, hold: bool = True) -> None:
        """Not now: the same attempts again later, first in line, once the queue was seen without them. *hold*: and
        after a pause."""
        again = [job for job in batch if job.stage == "sending"]
        for job in again:
            job.refused_at = self._now()
        self._why_held = why
        self._again(again)
        if hold and self._now() >= self._free_at:
            waiting = "1 waits" if len(self._queue) == 1 else f"{len(self._queue)} wait"
            self._hold(why, waiting)
        self._tell_held(self._queue)

    def _again(self, batch: Sequence[Job]) -> None:
        """First in line."""
        for job in batch:
            self._jobs.move(job, "queued")
        others = dict(self._queue)
        self._queue.clear()
        self._queue.update({job: self._batching.back(job, self._now()) for job in batch})
        self._queue.update(others)

    def _unknown(self, batch: Sequence[Job], why: str) -> None:
        for job in batch:
            if job.stage == "sending":
                self._jobs.move(job, "doubt")
                self._doubt(job)
        if self._now() >= self._free_at:
            self._hold(
                f"sbatch gave no answer{f' ({why})' if why else ''}", "whether there is a job is being looked up"
            )
        self._tell_held([*batch, *self._queue])

    def _tell_held(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._report.held(job, self._why_held)

    def _hold(self, why: str, what: str) -> None:
        """Say so, but not once a minute for hours."""
        self._why_held = why
        longest_s = self._limits.longest_back_off_s
        self._back_off_s = min(2 * self._back_off_s or self._limits.back_off_s, longest_s)
        self._free_at = self._now() + self._back_off_s
        if self._back_off_s > self._told_s:
            self._told_s = self._back_off_s
            self._note(f"{why}: {what}, tried again in {self._back_off_s:g} s", "warning")
        self._later(self._back_off_s)

    def _later(self, after_s: float, then: Callable[[], None] | None = None) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            (then or self._pump)()

        timer = self._loop.call_later(after_s, ring)
        self._timers.add(timer)


TIMEOUT_S = 30.0
"""Of one sbatch."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Slurm has it."""

    job_id: str
    anywhere: bool = False
    """Also on nodes that failed under it: with them excluded it was refused."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A script could not be written: sbatch was not called."""

    why: str


@dataclass(frozen=True, slots=True)
class Unbegun:
    """There is no sbatch now, or no process for it: a file server that is away, a new version being installed."""

    why: str


Submission = Taken | Refusal | Unwritten | Unbegun


def longest_s(orders: Sequence[StartOrder]) -> float:
    """What `submit` may take at most."""
    return 2 * TIMEOUT_S if _avoid(orders) else TIMEOUT_S


def submit(orders: Sequence[StartOrder], batch: str, control: str, environ: Mapping[str, str]) -> Submission:
    """Hand it to Slurm. *batch*: token of the array that several orders become."""
    answer = _submit(orders, batch, control, environ)
    if not _avoid(orders) or not isinstance(answer, Refusal) or answer.kind != "no":
        return answer
    answer = _submit([anywhere(order) for order in orders], batch, control, environ)
    return replace(answer, anywhere=True) if isinstance(answer, Taken) else answer


def anywhere(order: StartOrder) -> StartOrder:
    """The same, on any node that the task itself does not exclude."""
    return order if order.job is None else replace(order, job=replace(order.job, exclude=()))


def told_anywhere(jobs: Sequence[Job]) -> str:
    """For people: jobs that may go back to nodes that failed under them."""
    orders = [job.order.job for job in jobs if job.order is not None and job.order.job is not None]
    nodes = ", ".join(sorted({node for order in orders for node in order.exclude}))
    more = f" and {len(orders) - 1} more" if len(orders) > 1 else ""
    return (
        f"{orders[0].task}{more}: Slurm has no other node now than what failed before ({nodes}), which is not avoided"
    )


def _avoid(orders: Sequence[StartOrder]) -> bool:
    """Whether nodes are excluded that failed under them."""
    return any(order.job is not None and order.job.exclude for order in orders)


def _submit(orders: Sequence[StartOrder], batch: str, control: str, environ: Mapping[str, str]) -> Submission:
    try:
        path = _write(orders, batch, control)
    except OSError as error:
        return Unwritten(f"its script cannot be written: {error.filename or control}: {error.strerror or error}")
    job = orders[0].job
    environ = environ if job is None else unasked(environ, job)
    answer = run_program(SBATCH, environ, timeout_s=TIMEOUT_S, stdin=path)
    job_id = submitted_id(answer.out) if answer.ok else None
    if job_id:
        return Taken(job_id)
    refused = refusal(answer.code, answer.err)
    return Unbegun(refused.why or f"exit code {NOT_BEGUN}") if answer.code == NOT_BEGUN else refused


def _write(orders: Sequence[StartOrder], batch: str, control: str) -> str:
    path = ""
    for order in orders:
        path = order.job.script if order.job is not None else ""
        _write_script(path, script(order, control))
        _write_record(order)
    if not batch:
        return path
    write(control, batch, "map", map_text(order.token for order in orders))
    path = f"{control}/{batch}.sh"
    _write_script(path, array_script(orders, batch))
    return path


def _write_script(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomic(path, text.encode("utf-8", "surrogateescape"), mode=0o600, durable=False)


def _write_record(order: StartOrder) -> None:
    """An engine that has lost the journal may then know of the job from its first moment. What is there of the same
    attempt says more, and stays."""
    if order.job is None or not order.job.record:
        return
    path = f"{order.job.script.removesuffix('.sh')}.json"
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if order.token.encode() in file.read():
            return
    write_atomic(path, order.job.record, durable=False)
