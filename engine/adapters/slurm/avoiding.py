"""Nodes that failed under a task, which its next job is not to get: unless Slurm has no other for it.

An excluded node is one that sbatch will not hear of. Where it is the only one that could do, the job is refused; where
the others are down, it would wait for as long as they are.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...ports import JobOrder, StartOrder
from .calls import NOT_BEGUN, Answer, Calls, run_program
from .jobs import Job
from .parse import refusal
from .script import unasked

_TIMEOUT_S = 30.0
_AGAIN_S = 60.0
_NO_NODE = re.compile(r"ReqNodeNotAvail|Nodes required for job are DOWN|NodeDown|BadConstraints|PartitionNodeLimit")
"""Reasons to wait that may mean: none but the excluded would do. Some of them also mean other things."""


def avoided(job: Job) -> tuple[str, ...]:
    """Nodes that its job excludes since they failed under its task."""
    order = job.order.job if job.order is not None else None
    return order.exclude if order is not None else ()


def anywhere(order: StartOrder) -> StartOrder:
    """The same, on any node that the task itself does not exclude."""
    return order if order.job is None else replace(order, job=replace(order.job, exclude=()))


def told_anywhere(jobs: Sequence[Job]) -> str:
    """For people: jobs that may go back to nodes that failed under them."""
    names = [job.order.job.task for job in jobs if job.order is not None and job.order.job is not None]
    nodes = ", ".join(sorted({node for job in jobs for node in avoided(job)}))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}: Slurm has no other node now than what failed before ({nodes}), which is not avoided"


class Avoiding:
    """Looks after jobs that wait. All calls on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: Calls, *, note: Callable[[str, str], None]) -> None:
        self._loop = loop
        self._calls = calls
        self._note = note
        self._timers: dict[Job, asyncio.TimerHandle | None] = {}
        """Those that are looked after; None: being asked about."""

    def waits(self, job: Job) -> None:
        """It waits, for another reason than before."""
        if job not in self._timers and self._stuck(job):
            self._ask(job)

    def close(self) -> None:
        """Idempotent."""
        for timer in self._timers.values():
            if timer is not None:
                timer.cancel()
        self._timers.clear()

    def _stuck(self, job: Job) -> bool:
        return job.stage == "waiting" and bool(avoided(job)) and _NO_NODE.search(job.told_why) is not None

    def _ask(self, job: Job) -> None:
        order = job.order.job if job.order is not None else None
        if order is None or not self._stuck(job):
            self._timers.pop(job, None)
            return
        self._timers[job] = None
        self._calls.work(
            partial(_free, job.id, order, self._calls.environ), partial(self._freed, job), timeout_s=2 * _TIMEOUT_S
        )

    def _freed(self, job: Job, answer: Answer | None) -> None:
        """*answer*: of the update; None: nothing was changed."""
        if answer is None or not answer.ok:
            self._timers[job] = self._loop.call_later(_AGAIN_S, self._ask, job)
            return
        del self._timers[job]
        self._note(told_anywhere([job]), "warning")
        if job.order is not None:
            job.order = anywhere(job.order)


def _free(job_id: str, order: JobOrder, environ: Mapping[str, str]) -> Answer | None:
    """Let it run on any node if Slurm says that it cannot run elsewhere. Blocks."""
    test = run_program(("sbatch", "--test-only", order.script), unasked(environ, order), timeout_s=_TIMEOUT_S)
    if test.ok or test.code == NOT_BEGUN or refusal(test.code, test.err).kind != "no":
        return None
    own = str(order.options.get("exclude", ""))
    return run_program(("scontrol", "update", f"JobId={job_id}", f"ExcNodeList={own}"), environ, timeout_s=_TIMEOUT_S)
