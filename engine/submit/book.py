"""What was written into a folder of jobs earlier, and what became of it: jobs.json, what submit.sh keeps, and the files
in which jobs tell how they ended."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from ..adapters.slurm.calls import run_program, small_environment
from ..adapters.slurm.jobfiles import path as job_file
from ..adapters.slurm.jobfiles import read_ended, void
from ..adapters.slurm.jobs import Limits
from ..adapters.slurm.parse import SQUEUE, squeue_jobs
from ..adapters.slurm.states import stand
from ..atomic import write_atomic
from ..core.spec import TaskSpec
from ..errors import UsageError
from .shell import SUBMITTED

JOBS = "jobs.json"

Stands = Literal["unsent", "waits", "ok", "failed"]
"""Not handed to Slurm; there, waiting or running; ended with a success, or otherwise."""

_SQUEUE_S = 30.0


class Record(msgspec.Struct, frozen=True):
    """A task's newest job."""

    task: str
    attempt: int
    token: str
    fingerprint: str
    control: str
    """The folder in which it tells how it ended."""
    codes: tuple[int, ...] = (0,)
    """Exit codes that are a success."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A record, and how its job stands."""

    record: Record
    stands: Stands

    def is_of(self, spec: TaskSpec) -> bool:
        return self.record.fingerprint == spec.fingerprint


def load(folder: str) -> dict[str, Record]:
    """By task; {} where nothing was written. Raises UsageError for a file that is not ours."""
    path = os.path.join(folder, JOBS)
    try:
        with open(path, "rb") as file:
            records = msgspec.json.decode(file.read(), type=list[Record])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}): name another folder with --out") from error
    return {record.task: record for record in records}


def save(folder: str, records: Sequence[Record]) -> None:
    """Raises OSError."""
    text = msgspec.json.format(msgspec.json.encode(list(records)), indent=1)
    write_atomic(os.path.join(folder, JOBS), text + b"\n", mode=0o600)


def earlier(folder: str, environ: Mapping[str, str]) -> dict[str, Earlier]:
    """By task, how the jobs stand that were written into *folder*. Slurm is asked only about jobs that it was given and
    that left no end; where it does not answer they are taken as waiting. Raises UsageError."""
    records = load(folder)
    ids = submitted(folder)
    listed = _Listed(environ)
    return {task: Earlier(record, _stands(record, ids.get(record.token), listed)) for task, record in records.items()}


def submitted(folder: str) -> dict[str, str]:
    """By token the job id that submit.sh keeps: "12", "12_3"; "?NAME" where sbatch was asked and gave no answer."""
    try:
        with open(os.path.join(folder, SUBMITTED), encoding="utf-8") as file:
            lines = [line.split() for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return {}
    ids = {words[1]: words[2] for words in lines if len(words) == 3}
    return {token: job for token, job in ids.items() if job != "-"}


class _Listed:
    """What squeue says of the user's jobs; it is asked once, and only if somebody wants to know."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._jobs: dict[str, str] = {}
        self._answers: bool | None = None

    def gone(self, job: str) -> bool:
        """It is over, as Slurm says, or has forgotten. False also where Slurm does not answer."""
        if self._answers is None:
            argv = (*SQUEUE, "-u", str(os.getuid()))
            answer = run_program(argv, small_environment(self._environ), timeout_s=_SQUEUE_S)
            self._answers, self._jobs = answer.ok, {job.id: job.state for job in squeue_jobs(answer.out)}
        return self._answers and stand(self._jobs.get(job, "COMPLETED")) == "over"


def _stands(record: Record, job: str | None, listed: _Listed) -> Stands:
    with contextlib.suppress(FileNotFoundError), open(_file(record, "ended"), encoding="utf-8") as file:
        if (ended := read_ended(file.read())) is not None:
            return "ok" if ended.code in record.codes else "failed"
    if job is None:
        return "unsent"
    return "failed" if not job.startswith("?") and listed.gone(job) and _runs_no_more(record) else "waits"


def _runs_no_more(record: Record) -> bool:
    """Of a job that Slurm does not have any more: from now on nothing of that token begins, and what had begun has no
    heartbeat any more. One that was killed before its first has a claim that is as old."""
    silent_s = _age_s(record, "alive")
    if silent_s is None:
        if void(record.control, record.token):
            return True
        silent_s = _age_s(record, "claim")
    return silent_s is not None and silent_s > Limits().stale_s


def _age_s(record: Record, kind: str) -> float | None:
    """Seconds since one of its files was written; None: there is none."""
    try:
        return time.time() - os.stat(_file(record, kind)).st_mtime
    except FileNotFoundError:
        return None


def _file(record: Record, kind: str) -> str:
    return job_file(record.control, record.token, kind)
