"""The controller's own word on jobs that the queue does not show: sites let squeue answer from what it saw before."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from .calls import NOT_BEGUN, Answer, Calls, run_program
from .jobs import Job
from .parse import BATCH_MARK, MARK
from .states import stand

Shown = Literal["there", "gone", "silent"]
"""silent: it did not answer, which says nothing."""

_MOST = 100
"""Jobs of one turn; a call each, since Slurm shows one at a time."""
_TIMEOUT_S = 20.0
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
        jobs = list(self._wanted)[:_MOST]
        asked = [(job.id, _comment(job)) for job in jobs]
        work = partial(_show_all, asked, self._calls.environ)
        self._calls.work(work, partial(self._answered, jobs), timeout_s=_TIMEOUT_S * len(jobs))

    def _answered(self, jobs: Sequence[Job], found: Sequence[Shown] | None) -> None:
        self._running = False
        for place, job in enumerate(jobs):
            self._wanted.pop(job)(found[place] if found and place < len(found) else "silent")
        self._next()


def _show_all(asked: Sequence[tuple[str, str]], environ: Mapping[str, str]) -> list[Shown]:
    """Blocks. Once it is silent it is not asked for the rest, of which nothing is in what this returns."""
    found: list[Shown] = []
    for job_id, comment in asked:
        answer = run_program(("scontrol", "show", "job", job_id), environ, timeout_s=_TIMEOUT_S)
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
