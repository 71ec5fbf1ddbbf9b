"""sacct, where a cluster keeps accounts: what became of jobs that the queue has forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from .asking import SHORTEST_S
from .calls import NOT_BEGUN, Answer, Calls
from .parse import SACCT, AccountedJob, sacct_jobs

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
