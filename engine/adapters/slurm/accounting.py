"""What became of jobs that the queue does not show: by the controller's own word (sites let squeue answer from what it
saw before), and by sacct, where a cluster keeps accounts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from .calls import NOT_BEGUN, Answer, Calls, run_program
from .jobs import Job
from .parse import BATCH_MARK, MARK, SACCT, AccountedJob, sacct_jobs
from .queue_poller import SHORTEST_S
from .states import stand

_GATHER_S = 0.2
_MOST = 500
_TIMEOUT_S = 60.0
_SINCE = "now-60days"
_OFF = "accounting storage is disabled"

Told = Callable[[Sequence[AccountedJob]], None]


class Accounting:
    """One call at a time for all that is asked meanwhile, no oftener than the queue is looked at.

    All calls on the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: Calls) -> None:
        self._loop = loop
        self._calls = calls
        self._wanted: dict[str, list[Told]] = {}
        """By number: a controller that has lost its jobs gives theirs to others, of ours as well."""
        self._timer: asyncio.TimerHandle | None = None
        self._running = False
        self._free_at = 0.0
        self.usable = True
        """Until it is known to be switched off."""

    def ask(self, job_id: str, told: Told) -> None:
        """*told* gets what is known under a number, of all jobs that ever had it; empty: nothing, or nothing now."""
        self._wanted.setdefault(job_id, []).append(told)
        self._arm()

    def close(self) -> None:
        """Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if self._timer is None and self._wanted and not self._running:
            self._timer = self._loop.call_at(max(self._loop.time() + _GATHER_S, self._free_at), self._ask)

    def _ask(self) -> None:
        self._timer = None
        self._running = True
        wanted = dict(list(self._wanted.items())[:_MOST])
        for job_id in wanted:
            del self._wanted[job_id]
        call = (*SACCT, "-D", "-S", _SINCE, "-j", ",".join(wanted))
        self._calls.run(call, lambda answer: self._answered(wanted, answer), timeout_s=_TIMEOUT_S)

    def _answered(self, wanted: dict[str, list[Told]], answer: Answer) -> None:
        self._running = False
        self._free_at = self._loop.time() + SHORTEST_S
        if _OFF in answer.err or answer.code == NOT_BEGUN:
            self.usable = False
        found: dict[str, list[AccountedJob]] = {}
        for job in sacct_jobs(answer.out) if answer.ok else ():
            found.setdefault(job.id, []).append(job)
        for job_id, asked in wanted.items():
            for told in asked:
                told(found.get(job_id, ()))
        self._arm()


Shown = Literal["there", "gone", "silent"]
"""silent: it did not answer, which says nothing."""

_SHOWN_AT_ONCE = 100
"""Jobs of one turn; a call each, since Slurm shows one at a time."""
_SHOW_S = 20.0
_UNKNOWN = re.compile(r"Invalid job id|^Job \S+ not found", re.MULTILINE)
"""The second of an element, and on its standard output."""
_STATE = re.compile(r"\bJobState=(\w+)")


class Showing:
    """All calls on the loop's thread."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._wanted: dict[Job, Callable[[Shown], None]] = {}
        self._running = False

    def ask(self, job: Job, told: Callable[[Shown], None]) -> None:
        self._wanted[job] = told
        self._next()

    def _next(self) -> None:
        if self._running or not self._wanted:
            return
        self._running = True
        jobs = list(self._wanted)[:_SHOWN_AT_ONCE]
        asked = [(job.id, _comment(job)) for job in jobs]
        work = partial(_show_all, asked, self._calls.environ)
        self._calls.work(work, partial(self._answered, jobs), timeout_s=_SHOW_S * len(jobs))

    def _answered(self, jobs: Sequence[Job], found: Sequence[Shown] | None) -> None:
        self._running = False
        for place, job in enumerate(jobs):
            self._wanted.pop(job)(found[place] if found and place < len(found) else "silent")
        self._next()


def _show_all(asked: Sequence[tuple[str, str]], environ: Mapping[str, str]) -> list[Shown]:
    """Blocks. Once it is silent it is not asked for the rest, of which nothing is in what this returns."""
    found: list[Shown] = []
    for job_id, comment in asked:
        answer = run_program(("scontrol", "show", "job", job_id), environ, timeout_s=_SHOW_S)
        found.append(shown(answer, comment))
        if found[-1] == "silent":
            break
    return found


def shown(answer: Answer, comment: str) -> Shown:
    """What `scontrol show job` means. *comment*: a job of ours has it, others of its number have not."""
    state = _STATE.search(answer.out)
    if answer.ok and state is not None:
        return "there" if comment in answer.out and stand(state[1]) != "over" else "gone"
    return "gone" if _UNKNOWN.search(answer.err + answer.out) or answer.code == NOT_BEGUN else "silent"


def _comment(job: Job) -> str:
    if "_" in job.id:  # an earlier engine's array may be one that nobody remembers
        return BATCH_MARK + job.element.partition("_")[0]
    return MARK + job.token
