"""Defects of the launcher for clusters, each of which worlds with a cluster must notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from gpudeck.engine.core.inputs import LeaderExited
from tests.inside.sim import slurm_parts as slurm


def _instead(where: object, name: str, new: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(where, name, new)


_read_ended, _next_step, _recovered = slurm.jobfiles.read_ended, slurm.next_step.next_step, slurm.launcher.recovered
_stop, _never_ran = slurm.next_step._stop, slurm.next_step._never_ran
VOID = slurm.jobfiles.VOID


def _one_too_high(text: str) -> Any:
    ended = _read_ended(text)
    return replace(ended, code=ended.code + 1) if ended is not None and ended.code is not None else ended


def _unable_is_well(text: str) -> Any:
    ended = _read_ended(text)
    return replace(ended, code=0, error="") if ended is not None and ended.code is None else ended


def _knows_all_codes(*args: Any) -> Any:
    step = _next_step(*args)
    return replace(step, code=0) if isinstance(step, LeaderExited) and step.code is None else step


def _gives_up(job: Any, now: float, limits: Any) -> Any:
    if job.stop is not None and job.stage != "running" and job.seen.claimed:
        return _never_ran(job, now)
    return _stop(job, now, limits)


def _forgets(known: Any, left: Any) -> Any:
    job = _recovered(known, left)[1]
    job.seen.claim = VOID
    return "never ran", job


ON_CLUSTER: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "a submission without an answer is sent again": _instead(
        slurm.SlurmLauncher,
        "_unknown",
        lambda self, batch, why: self._refused([job for job in batch if job.stage == "sending"], why),
    ),
    "a claim is said to be ours before it is": _instead(slurm.jobfiles, "void", lambda _folder, _token: VOID),
    "what Slurm calls over is not waited for": _instead(
        slurm.next_step, "_once_silent", lambda _job, _now, _limits, then: then
    ),
    "what Slurm forgot is waited for for ever": _instead(
        slurm.next_step, "_absent", lambda _job, _now, _limits: "wait"
    ),
    "a part of a record is taken for all of it": _instead(
        slurm.jobfiles, "read_ended", lambda text: _read_ended(f"{text}\n")
    ),
    "codes in records are read as one too high": _instead(slurm.jobfiles, "read_ended", _one_too_high),
    "a code that nobody knows is a success": _instead(slurm.launcher, "next_step", _knows_all_codes),
    "what could write no log is a success": _instead(slurm.jobfiles, "read_ended", _unable_is_well),
    "what could not be stopped has never run": _instead(slurm.next_step, "_stop", _gives_up),
    "jobs of earlier engines have never run": _instead(slurm.launcher, "recovered", _forgets),
    "the queue is looked at twice a second": _instead(slurm.launcher, "SHORTEST_S", 0.5),
    "the accounts are asked without a pause": _instead(slurm.launcher, "_ACCOUNTS_S", 0.0),
}
