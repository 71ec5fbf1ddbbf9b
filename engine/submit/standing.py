"""How a job that was submitted earlier stands: by the files in which it tells that, and where these are silent by
Slurm."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Mapping
from typing import Literal

from ..adapters.slurm.calls import run_program, small_environment
from ..adapters.slurm.jobfiles import VOID, path, read_ended, void
from ..adapters.slurm.next_step import Limits
from ..adapters.slurm.parse import SQUEUE, QueuedJob, squeue_jobs
from ..adapters.slurm.states import stand

Stands = Literal["waits", "ok", "failed"]
"""There, waiting or running; ended with a success, or otherwise."""

_SQUEUE_S = 30.0


class Standing:
    """Of the jobs whose files lie in one folder. Slurm is asked once, and only about jobs that left no end; where it
    does not answer they wait."""

    def __init__(self, control: str, environ: Mapping[str, str]) -> None:
        self._control = control
        self._environ = environ
        self._states: dict[str, str] | None = None
        """By what TOKEN.sent calls a job; None: not asked yet."""
        self._answers = False

    def of(self, token: str, success_codes: Collection[int]) -> Stands:
        """Where nothing of a job can run any more its claim is taken: it has failed for good. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            if (ended := read_ended(self._read(token, "ended"))) is not None:
                return "ok" if ended.code in success_codes else "failed"
        sent_as = self._read(token, "sent").rpartition("\n")[0].rpartition("\n")[2]
        return "failed" if self._is_gone(sent_as) and self._runs_no_more(token) else "waits"

    def _is_gone(self, sent_as: str) -> bool:
        """It is over, as Slurm says, or has forgotten. False also where Slurm does not answer."""
        if self._states is None:
            argv = (*SQUEUE, "-u", str(os.getuid()))
            answer = run_program(argv, small_environment(self._environ), timeout_s=_SQUEUE_S)
            self._answers = answer.ok
            self._states = {key: job.state for job in squeue_jobs(answer.out) for key in (job.id, _name(job))}
        return self._answers and stand(self._states.get(sent_as, "COMPLETED")) == "over"

    def _runs_no_more(self, token: str) -> bool:
        """Of a job that Slurm does not have any more: from now on nothing of it begins, and what had begun has no
        heartbeat any more. One that was killed before its first has a claim that is as old."""
        silent_s = self._age_s(token, "alive")
        if silent_s is None:
            if void(self._control, token) == VOID:
                return True
            silent_s = self._age_s(token, "claim")
        return silent_s is not None and silent_s > Limits().stale_s

    def _age_s(self, token: str, kind: str) -> float | None:
        """Seconds since one of its files was written; None: there is none."""
        try:
            return time.time() - os.stat(path(self._control, token, kind)).st_mtime
        except FileNotFoundError:
            return None

    def _read(self, token: str, kind: str) -> str:
        with open(path(self._control, token, kind), encoding="utf-8", errors="replace") as file:
            return file.read()


def _name(job: QueuedJob) -> str:
    """What TOKEN.sent calls it until sbatch has answered: "?NAME", of an array's element "?NAME_7"."""
    index = job.id.partition("_")[2]
    return f"?{job.name}_{index}" if index else f"?{job.name}"
