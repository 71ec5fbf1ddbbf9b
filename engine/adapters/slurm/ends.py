"""Beginnings and ends, as wrappers write them in the control folder."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial

from ...core.outcome import Cause
from ..inotify import Arrivals
from ..processes.spawn_error import explain_code, explain_setup
from .control import Control, Found
from .jobfiles import VOID, Ended, read_began, read_ended
from .jobs import Job, Jobs
from .report import Report
from .states import in_words

_LOOK_S, _NETWORK_LOOK_S = 2.0, 0.5
_ENDED = (128 + 9, 128 + 15)
_NOT_EXECUTED = (126, 127)
UNABLE = 125
"""The code of what was never executed."""


class Ends:
    """Looks for what jobs write, at once where the kernel tells of it, and now and then where it may not."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        control: Control,
        jobs: Jobs,
        report: Report,
        *,
        on_network: bool,
        unclear: Callable[[Job], None],
        voided: Callable[[], Collection[str]],
    ) -> None:
        """*unclear* is told of a job that wrote its end and was ended by somebody else: Slurm knows why. *voided*:
        tokens of which nothing may run."""
        self._loop = loop
        self._control = control
        self._jobs = jobs
        self._report = report
        self._unclear = unclear
        self._voided = voided
        self._look_s = _NETWORK_LOOK_S if on_network else _LOOK_S
        self._names = set[str]()
        self._everywhere = False
        self._looking = False
        self._timer: asyncio.TimerHandle | None = None
        self._arrivals = Arrivals(loop, control.folder, self._arrived)

    def keep_looking(self) -> None:
        """There are jobs."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._look_s, self._look_around)

    def look(self) -> None:
        """Look at all now."""
        self._everywhere = True
        self._look()
        self.keep_looking()

    def look_for(self, job: Job, then: Callable[[bool], None]) -> None:
        """Look once more whether it has told its end; *then* gets False where the folder does not answer."""
        self._control.look_around([(job.token, True)], self._claims(), partial(self._looked_for, then))

    def _looked_for(self, then: Callable[[bool], None], found: Found | None) -> None:
        self.take(found or [])
        then(found is not None)

    def take(self, found: Found) -> None:
        """What files say, by their names."""
        for name, text in found:
            token, _, kind = name.partition(".")
            job = self._jobs.get(token)
            if job is None:
                continue
            if kind == "began":
                if (began := read_began(text)) is not None:
                    job.nodes = ",".join(began.nodes)
                    self._report.began(job, began.job, began.wall, began.nodes)
            elif job.end is None and (ended := read_ended(text)) is not None:
                self._ended(job, ended)

    def close(self) -> None:
        """Idempotent."""
        self._arrivals.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arrived(self, names: set[str] | None) -> None:
        if names is None:
            self._everywhere = True
        else:
            self._names |= self._of_ours(names)
        self._look()

    def _of_ours(self, names: set[str]) -> set[str]:
        ours = set[str]()
        for name in names:
            token, _, kind = name.partition(".")
            if kind in ("began", "ended") and self._jobs.get(token) is not None:
                ours |= {f"{token}.began", name}  # the beginning is told first
        return ours

    def _look_around(self) -> None:
        self._timer = None
        self._everywhere = True
        self._look()
        if len(self._jobs):
            self.keep_looking()

    def _look(self) -> None:
        if self._looking or not (self._names or self._everywhere):
            return
        everywhere, names = self._everywhere, self._names
        self._everywhere, self._names = False, set[str]()
        self._looking = True
        if everywhere:
            tokens = [(job.token, job.stage == "running") for job in self._jobs if job.end is None]
            self._control.look_around(tokens, self._claims(), self._looked)
        else:
            self._control.look(names, self._looked)

    def _claims(self) -> Mapping[str, str]:
        """Who has each, as far as that is known."""
        running = {job.token: job.id for job in self._jobs if job.stage == "running" and job.id}
        return {**dict.fromkeys(self._voided(), VOID), **running}

    def _looked(self, found: Found | None) -> None:
        self._looking = False
        self.take(found or [])
        self._look()

    def _ended(self, job: Job, ended: Ended) -> None:
        """One that was told to end by nobody here, or killed, was ended by Slurm, which knows why."""
        job.end = ended
        order = job.order
        if job.stop is not None or ended.signal == "limit":
            self.tell(job)
        elif ended.signal or ended.code in _ENDED:
            self._unclear(job)
        elif ended.code and ended.code not in _NOT_EXECUTED and order is not None:
            self._control.read(partial(says_killed, order.stderr, order.stdout), partial(self._killed, job))
        else:
            self.tell(job)

    def _killed(self, job: Job, killed: bool | None) -> None:
        if killed:
            self._unclear(job)
        else:
            self.tell(job)

    def tell(self, job: Job, cause: Cause = "", detail: str = "") -> None:
        """It ended as its wrapper wrote; *cause*, *detail*: Slurm's word on it."""
        ended, order = job.end, job.order
        if ended is None:
            return
        if ended.signal == "limit" and job.stop is None and not cause:
            cause, detail = "timeout", in_words("TIMEOUT", job.nodes)
        if ended.code is None:
            self._tell_unable(job, ended)
        elif ended.code in _NOT_EXECUTED and order is not None and not cause:
            explain = partial(explain_code, ended.code, order.stderr, order.cwd)
            self._control.read(explain, partial(self._explained, job, ended))
        else:
            self._report.over(job, ended.code, wall=ended.wall, cause=cause, detail=detail, by_itself=ended.by_itself)

    def _tell_unable(self, job: Job, ended: Ended) -> None:
        why = _unable(ended.error, job)
        if ended.error == "setup" and job.order is not None:
            explain = partial(explain_setup, job.order.stderr)
            self._control.read(explain, lambda line: self._told_unable(job, ended, line or why))
        else:
            self._told_unable(job, ended, why)

    def _told_unable(self, job: Job, ended: Ended, why: str) -> None:
        self._report.over(job, UNABLE, wall=ended.wall, spawn_error=why)

    def _explained(self, job: Job, ended: Ended, why: str | None) -> None:
        self._report.over(job, ended.code, wall=ended.wall, spawn_error=why or "")


def _unable(error: str, job: Job) -> str:
    where = f" on {job.nodes}" if job.nodes else ""
    cwd, log = (job.order.cwd, job.order.stdout) if job.order is not None else ("", "")
    return {
        "spawn-cwd": f"its folder cannot be entered{where}: {cwd}".rstrip(": "),
        "spawn-log": f"its log cannot be written{where}: {log}".rstrip(": "),
        "setup": f"a line of setup failed{where}: its log tells more",
    }.get(error, f"it could not be started{where}: {error}")


_TAIL_BYTES = 8192
_KILLED = re.compile(rb"\bkilled\b|SIGKILL|signal 9\b|out of memory|oom[-_ ]kill", re.IGNORECASE)
_MEMORY = re.compile(
    rb"^(?:slurmstepd|srun)\S*: error: .*(?:memory limit|oom[-_ ]kill|out of memory)", re.IGNORECASE | re.MULTILINE
)


def says_killed(*paths: str) -> bool:
    """Whether something was killed: who started it (torchrun, srun, a DataLoader) ends with a code of its own then."""
    return any(_KILLED.search(_tail(path)) for path in paths)


def says_memory(*paths: str) -> bool:
    """Whether Slurm wrote that the job had more memory than it may have."""
    return any(_MEMORY.search(_tail(path)) for path in paths)


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES)
    except OSError:
        return b""
