"""Defects of the launcher for clusters, each of which worlds with a cluster must notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.inside.sim import slurm_parts as slurm


def _instead(where: object, name: str, new: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(where, name, new)


_read_ended, _over, _claimed = slurm.ends.read_ended, slurm.Report.over, slurm.Stops._claimed
_fate = slurm.recovery.Left.fate


def _one_too_high(text: str) -> Any:
    ended = _read_ended(text)
    return replace(ended, code=ended.code + 1) if ended is not None and ended.code is not None else ended


ON_CLUSTER: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "a submission without an answer is sent again": _instead(
        slurm.Submitting, "_unknown", lambda self, batch, why: self._refused(batch, why)
    ),
    "a claim is said to be ours before it is": _instead(
        slurm.Control, "void", lambda self, _token, done: self._loop.call_soon(done, True)
    ),
    "what Slurm calls over is not waited for": _instead(slurm.Decider, "_when_stale", lambda _self, _job, then: then()),
    "what Slurm forgot is waited for for ever": _instead(slurm.Decider, "_judge_vanished", lambda _self, _job: None),
    "a part of a record is taken for all of it": _instead(
        slurm.ends, "read_ended", lambda text: _read_ended(f"{text}\n")
    ),
    "codes in records are read as one too high": _instead(slurm.ends, "read_ended", _one_too_high),
    "a code that nobody knows is a success": _instead(
        slurm.Report, "over", lambda self, job, code, **more: _over(self, job, code or 0, **more)
    ),
    "what could not be stopped has never run": _instead(
        slurm.Stops, "_claimed", lambda self, job, scope, _: _claimed(self, job, scope, True)
    ),
    "jobs of earlier engines have never run": _instead(
        slurm.recovery.Left, "fate", lambda self, known: ("never ran", _fate(self, known)[1])
    ),
    "the queue is looked at twice a second": _instead(slurm.queue_poller, "SHORTEST_S", 0.5),
    "the accounts are asked for each job": _instead(
        slurm.Accounting, "_arm", lambda self: self._wanted and self._ask()
    ),
}
