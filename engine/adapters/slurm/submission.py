"""Attempts on their way into the queue: whose turn it is, and the call of sbatch.

A call whose fate is not known is never repeated: `next_step` finds out whether there is a job, and if there is none
makes sure that none can run.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...atomic import write_atomic
from ...ports import StartOrder
from ..programs import NOT_BEGUN, run_program
from .job import Job
from .jobfiles import map_text, write
from .next_step import Limits
from .parse import Submission, refusal, submitted_id
from .script import SBATCH, array_script, asks, job_of, script, unasked

_GATHER_S = 0.2
"""How long attempts wait for others alike. Where nothing says that they are to share an array, the first does not."""
_MANY = 50
"""So many share an array where nothing says whether."""
_MOST = 500
"""Elements; clusters allow 1001 unless they say otherwise."""


class Outbox:
    """Attempts that wait for their sbatch, in order. Pure; all times are CLOCK_BOOTTIME."""

    def __init__(self, limits: Limits) -> None:
        self.jobs: dict[Job, None] = {}
        self.full: int | None = None
        """How many jobs of ours Slurm had when it would take no more of them."""
        self.why = ""
        """Why it took none last."""
        self.free_at = 0.0
        """Nothing is submitted before."""
        self._limits = limits
        self._singly = False
        self._joined: dict[tuple[str, ...], float] = {}
        """When the last of those that ask for this came."""
        self._back_off_s = 0.0
        self._told_s = 0.0
        """The longest pause that was told since nothing was left to be submitted."""

    def add(self, job: Job, now: float) -> None:
        """Submit it as soon as may be; those of an array once others have had the time to join."""
        self.jobs[job] = None
        order = job_of(job.order)
        job.alike = () if order.options.get("array") is False else asks(order)
        if not job.alike:
            return
        hurries = _fewest(job) == _MANY and now - self._joined.get(job.alike, -_GATHER_S) >= _GATHER_S
        self._joined[job.alike] = now
        job.ready_at = 0.0 if hurries else now + _GATHER_S

    def again(self, jobs: Sequence[Job]) -> None:
        """First in line."""
        self.jobs = dict.fromkeys(jobs) | self.jobs
        for job in jobs:
            job.ready_at = 0.0

    def next(self, now: float, looked_at: float) -> list[Job]:
        """Whose turn it is: one, or all that may share an array. Empty: all must wait. *looked_at*: when the queue was
        seen last; what was refused after that may be in it."""
        if now < self.free_at:
            return []
        ready = [job for job in self.jobs if job.refused_at is None or looked_at > job.refused_at]
        alike = Counter(job.alike for job in ready)
        for head in ready:
            if now < head.ready_at:
                continue
            if self._singly or not head.alike or alike[head.alike] < _fewest(head):
                return [head]
            return [job for job in ready if job.alike == head.alike][:_MOST]
        return []

    def due(self, now: float) -> float | None:
        """When time alone brings the next turn."""
        times = [max(self.free_at, job.ready_at) for job in self.jobs]
        return min((at for at in times if at > now), default=None)

    def taken(self) -> None:
        """Slurm has taken some."""
        self._back_off_s = 0.0
        if not self.jobs:
            self._told_s = 0.0

    def room(self, count: int) -> None:
        """Slurm has so many jobs of ours: where there were too many before, the next may be tried."""
        if self.full is not None and count < self.full:
            self.full, self.free_at, self._back_off_s = None, 0.0, 0.0

    def singly(self, refused: int) -> bool:
        """So many elements of an array were refused: from now on each goes alone. False: it was none."""
        self._singly = self._singly or refused > 1
        return refused > 1

    def hold(self, why: str, what: str, now: float) -> str:
        """Submit nothing for a while. What is to be told of that: not once a minute for hours; empty: nothing."""
        self.why = why
        if now < self.free_at:
            return ""
        self._back_off_s = min(2 * self._back_off_s or self._limits.back_off_s, self._limits.longest_back_off_s)
        self.free_at = now + self._back_off_s
        if self._back_off_s <= self._told_s:
            return ""
        self._told_s = self._back_off_s
        return f"{why}: {what}, tried again in {self._back_off_s:g} s"


def _fewest(job: Job) -> int:
    """Fewer than so many share no array."""
    return _MANY if job_of(job.order).options.get("array") is None else 1


TIMEOUT_S = 30.0
"""Of one sbatch."""


def longest_s(orders: Sequence[StartOrder]) -> float:
    """What `submit` may take at most."""
    return 2 * TIMEOUT_S if _avoid(orders) else TIMEOUT_S


def submit(orders: Sequence[StartOrder], batch: str, control: str, environ: Mapping[str, str]) -> Submission:
    """Hand it to Slurm. *batch*: token of the array that several orders become."""
    answer = _submit(orders, batch, control, environ)
    if not _avoid(orders) or answer.kind != "no":
        return answer
    answer = _submit([anywhere(order) for order in orders], batch, control, environ)
    return replace(answer, anywhere=answer.kind == "taken")


def anywhere(order: StartOrder) -> StartOrder:
    """The same, on any node that the task itself does not exclude."""
    return replace(order, job=replace(job_of(order), exclude=()))


def told_anywhere(jobs: Sequence[Job]) -> str:
    """For people: jobs that may go back to nodes that failed under them."""
    orders = [job_of(job.order) for job in jobs]
    nodes = ", ".join(sorted({node for order in orders for node in order.exclude}))
    more = f" and {len(orders) - 1} more" if len(orders) > 1 else ""
    return (
        f"{orders[0].task}{more}: Slurm has no other node now than what failed before ({nodes}), which is not avoided"
    )


def _avoid(orders: Sequence[StartOrder]) -> bool:
    """Whether nodes are excluded that failed under them."""
    return any(job_of(order).exclude for order in orders)


def _submit(orders: Sequence[StartOrder], batch: str, control: str, environ: Mapping[str, str]) -> Submission:
    try:
        path = _write(orders, batch, control)
    except OSError as error:
        why = f"its script cannot be written: {error.filename or control}: {error.strerror or error}"
        return Submission("unwritten", why)
    answer = run_program(SBATCH, unasked(environ, job_of(orders[0])), timeout_s=TIMEOUT_S, stdin=path)
    job_id = submitted_id(answer.out) if answer.ok else None
    if job_id:
        return Submission("taken", job_id=job_id)
    refused = refusal(answer.code, answer.err)
    if answer.code == NOT_BEGUN:
        return Submission("unbegun", refused.why or f"exit code {NOT_BEGUN}")
    return refused


def _write(orders: Sequence[StartOrder], batch: str, control: str) -> str:
    path = ""
    for order in orders:
        path = job_of(order).script
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
    job = job_of(order)
    if not job.record:
        return
    path = f"{job.script.removesuffix('.sh')}.json"
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if order.token.encode() in file.read():
            return
    write_atomic(path, job.record, durable=False)
