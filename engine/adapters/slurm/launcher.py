"""Attempts as jobs of a Slurm cluster."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence

from ...core.fate import Fate
from ...core.spec import StopScope
from ...ports import Known, Sink, StartOrder
from ..host import boottime_s
from .accounting import Accounting, Showing
from .calls import Answer, Calls
from .control import Control
from .decide import Decider
from .ends import Ends
from .jobs import Job, Jobs, Limits
from .parse import SQUEUE
from .queue_poller import Picture, QueuePoller
from .recovery import Left
from .report import Report
from .stopping import Removals, Stops
from .submitting import Submitting

_CONFIG_TIMEOUT_S = 30.0
_MESSAGE_TIMEOUT = re.compile(r"^MessageTimeout\s*=\s*(\d+)", re.MULTILINE)


class SlurmLauncher:
    """`ports.Launcher` for a cluster. An attempt's wrapper tells how it went by files in a folder that nodes and
    engine share; Slurm is asked for what they do not tell. See `jobfiles`, `Decider`."""

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
        limits = limits or Limits()
        self._loop = loop
        self._calls = Calls(loop, environ)
        self._control = Control(loop, control, on_network=on_network)
        self._jobs = Jobs(now)
        self._report = Report(self._jobs, sink, now)
        self._accounting = Accounting(loop, self._calls)
        self._removals = Removals(loop, self._calls, self._control, now=now)
        self._ends = Ends(
            loop, self._control, self._jobs, self._report, on_network=on_network, unclear=self._unclear,
            voided=self._removals.voided,
        )  # fmt: skip
        self._decider = Decider(
            loop, self._jobs, self._report, self._control, self._ends, self._removals, self._accounting,
            Showing(self._calls), limits=limits, note=note, now=now,
        )  # fmt: skip
        self._poller = QueuePoller(
            loop,
            self._calls,
            query=(*SQUEUE, "-u", str(os.getuid())),
            took=self._looked,
            needed=lambda: bool(len(self._jobs) or self._removals.expected),
            pressing=lambda: self._decider.pressing or bool(self._jobs.queue),
            note=note,
            now=now,
        )
        self._submitting = Submitting(
            loop, self._calls, self._jobs, self._report, control,
            doubt=self._doubt, late=self._removals.void, sent=self._poller.soon, forget=self._control.forget,
            limits=limits, note=note, now=now,
        )  # fmt: skip
        self._stops = Stops(loop, self._control, self._report, self._removals, limits=limits, now=now)
        self._knows_timeout = False
        self._closed = False

    def start(self, order: StartOrder) -> None:
        """See `ports.Launcher`."""
        self._submitting.add(self._jobs.add(Job(order.token, order)))
        self._ends.keep_looking()

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, Fate]:
        """See `ports.Launcher`. What was adopted may turn out to have ended, or not to have run, once Slurm answers."""
        if not attempts:
            return {}
        left = Left.read(self._control.folder, attempts)
        fates: dict[str, Fate] = {}
        for known in attempts:
            fates[known.token], job = left.fate(known)
            self._jobs.add(job)
            if fates[known.token] == "never ran":
                self._removals.void(job)
                self._loop.call_soon(self._report.never_ran, job)
            elif job.stage == "doubt":
                self._doubt(job)
        self._ends.look()
        self._poller.soon()
        return fates

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """See `ports.Launcher`. One that has not begun ends at once."""
        job = self._jobs.get(token)
        if job is not None:
            self._stops.stop(job, signal=signal, scope=scope, grace_s=grace_s)

    def warn(self, token: str, signal: int) -> int:
        """See `ports.Launcher`: 1 where its wrapper was told, which knows who catches it."""
        job = self._jobs.get(token)
        if job is None or job.stage != "running":
            return 0
        self._control.warn(token, signal)
        return 1

    def gather(self, gpus: Sequence[str], task: str) -> None:
        """See `ports.Launcher`: Slurm does that."""

    def members(self) -> Mapping[int, str]:
        """See `ports.Launcher`: none is on this box."""
        return {}

    def forget(self, token: str) -> None:
        """See `ports.Launcher`. The script stays."""
        self._control.forget(token, keep_claim=self._removals.is_void(token))

    def close(self) -> None:
        """See `ports.Launcher`. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for part in (
            self._submitting, self._poller, self._decider, self._stops, self._removals, self._accounting,
            self._ends, self._control, self._calls,
        ):  # fmt: skip
            part.close()

    def _looked(self, picture: Picture) -> bool:
        moved = self._decider.looked(picture)
        self._removals.looked(picture)
        self._submitting.looked(picture)
        return moved

    def _unclear(self, job: Job) -> None:
        self._decider.unclear(job)
        self._poller.soon()

    def _doubt(self, job: Job) -> None:
        """It may be in the queue, or on its way into it for as long as Slurm's messages may take."""
        self._decider.suspect(job)
        self._poller.soon()
        if not self._knows_timeout:
            self._knows_timeout = True
            self._calls.run(("scontrol", "show", "config"), self._configured, timeout_s=_CONFIG_TIMEOUT_S)

    def _configured(self, answer: Answer) -> None:
        found = _MESSAGE_TIMEOUT.search(answer.out)
        if found is None:
            self._knows_timeout = False
        else:
            self._decider.message_timeout_s = float(found[1])
