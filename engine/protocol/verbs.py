"""The verbs that act on tasks: whom each means, why it means nobody else, and what `retry --debug` adds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .rows import TaskRow
from .states import ACTIVE, ENDED


@dataclass(frozen=True, slots=True)
class Act:
    """One of the verbs: whom it means, and how it is told."""

    may: Callable[[TaskRow], bool]
    """It does something to such a task."""
    done: Callable[[TaskRow], bool]
    """Such a task is already as it would be."""
    refusal: str
    """Why it does nothing to other ones: "only what has ended can be retried"."""


ACTS: dict[str, Act] = {
    "retry": Act(
        lambda row: row.left_out or row.state in ENDED or row.state in ("backoff", "unknown"),
        lambda _: False,
        "only what has ended can be retried",
    ),
    "cancel": Act(
        lambda row: row.state not in ENDED,
        lambda row: row.state == "cancelled",
        "only what has not ended can be cancelled",
    ),
    "kill": Act(
        lambda row: row.state not in ENDED,
        lambda row: row.state == "cancelled",
        "only what has not ended can be killed",
    ),
    "hold": Act(
        lambda row: row.state not in ENDED and not row.held,
        lambda row: row.held,
        "only what has not ended can be held",
    ),
    "release": Act(lambda row: row.held, lambda row: not row.held, "it is not held"),
    "priority": Act(lambda _: True, lambda _: False, ""),
    "accept": Act(
        lambda row: row.changed or row.stale or row.state in ACTIVE,
        lambda row: row.state in ("succeeded", "cached"),
        "only what is changed or stale has something to accept",
    ),
}

_TOLD_LATE = re.compile(r"device-side assert|illegal memory access|CUDA_LAUNCH_BLOCKING")
"""CUDA tells of these at some later call, unless each call waits for the one before."""


def debug_env(failed: Sequence[TaskRow], *, simulated: bool) -> dict[str, str]:
    """For these tasks, which have ended; *simulated*: the deck's GPUs are. CUDA_LAUNCH_BLOCKING slows training down, so
    it is for what needs it alone."""
    env = {"NCCL_DEBUG": "INFO", "TORCH_DISTRIBUTED_DEBUG": _torch_level(failed, simulated=simulated)}
    if any(_TOLD_LATE.search(row.reason) for row in failed):
        env["CUDA_LAUNCH_BLOCKING"] = "1"
    return env


def _torch_level(failed: Sequence[TaskRow], *, simulated: bool) -> str:
    """DETAIL compares every collective call between ranks. Over gloo, which is what ranks without GPUs use, torch 2.13
    crashes with it in the constructor of DistributedDataParallel."""
    return "DETAIL" if not simulated and any(row.gpus for row in failed) else "INFO"
