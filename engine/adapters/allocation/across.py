"""Where in our allocation a task runs, and what its command becomes for that."""

from __future__ import annotations

from collections.abc import Sequence

from .nodes import Allocation, step, step_anywhere
from .probe import node_of
from .relay import relayed


def across(
    allocation: Allocation, gpus: Sequence[str], cpus: int | None, memory_mib: int | None, argv: Sequence[str]
) -> tuple[str, ...] | None:
    """*argv* as a step on the node of these GPUs (UUIDs); None: it runs on this box as it is. Without GPUs it is a step
    wherever Slurm finds cores for it."""
    if not gpus:
        return relayed(step_anywhere(allocation, cpus=cpus or 1, memory_mib=memory_mib), argv, gpus=False)
    node = allocation.node(node_of(gpus[0]))
    return None if node is None else relayed(step(node, gpus=len(gpus), cpus=cpus, memory_mib=memory_mib), argv)
