"""What `retry --debug` adds to an environment, so that a task tells more of its next failure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..protocol.rows import TaskRow

_TOLD_LATE = re.compile(r"device-side assert|illegal memory access|CUDA_LAUNCH_BLOCKING")
"""CUDA tells of these at some later call, unless each call waits for the one before."""


def debug_env(failed: Sequence[TaskRow], *, simulated: bool = False) -> dict[str, str]:
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
