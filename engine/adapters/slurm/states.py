"""Slurm's words for where a job stands, and what its end means to an attempt. Pure."""

from __future__ import annotations

import re
from typing import Literal

from ...core.events import Cause

Stand = Literal["pending", "running", "over"]

_PENDING = frozenset(
    ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
)
DROPPED = "DROPPED"
"""Our word for a job that the accounting calls cancelled and names nobody for: a controller that lost its state."""
_CAUSES: dict[str, Cause] = {
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "oom",
    "PREEMPTED": "preempted",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    DROPPED: "node_fail",
    "LAUNCH_FAILED": "launch",
    "RECONFIG_FAIL": "launch",
}
FAILED = frozenset(("FAILED", *_CAUSES))
"""Of jobs that are over, and were no success."""

_NEVER = {
    "PartitionTimeLimit": "its time limit is longer than its partition's",
    "PartitionNodeLimit": "its partition gives no job so many nodes, or these are down",
    "BadConstraints": "no node is as it asks for, or these are down",
    "AccountNotAllowed": "its account may not use this partition",
    "InvalidAccount": "its account is not valid",
    "QOSNotAllowed": "its partition or account does not have this QOS",
    "InvalidQOS": "its QOS is not valid",
    "DependencyNeverSatisfied": "what it waits for has failed",
    "JobHeldUser": "it is held until `scontrol release`",
    "JobHeldAdmin": "it is held until an administrator releases it",
}
_OF_EACH_JOB = re.compile(r"(?:QOS|Assoc)(?:Max\w*PerJob(?:Limit)?|Min\w+)")
"""Limits of a job alone: they do not pass as other jobs end."""


def never_starts(reason: str) -> str:
    """Why a job that waits for this will not start as it is; "" where time may help."""
    limit = "it asks for more, or less, than your account or its QOS lets a job have"
    return _NEVER.get(reason, limit if _OF_EACH_JOB.fullmatch(reason) else "")


def word(state: str) -> str:
    """The state itself: "CANCELLED by 1000" is CANCELLED, as is "CANCELLED+"."""
    return state.split(None, 1)[0].rstrip("+") if state.strip() else ""


def accounted(state: str) -> str:
    """What sacct's word for a state is here: of what somebody cancelled it says by whom, "CANCELLED by 1000"."""
    return DROPPED if state.strip() == "CANCELLED" else state


def stand(state: str) -> Stand:
    """COMPLETING counts as running, as do words that this version does not know: nothing is done about them."""
    state = word(state)
    if state in _PENDING:
        return "pending"
    return "over" if state == "COMPLETED" or state in FAILED else "running"


def cause_of(state: str) -> Cause:
    """Why a job ended; "" where its exit code tells."""
    return _CAUSES.get(word(state), "")


def in_words(state: str, nodes: str = "") -> str:
    """One line for people, behind the cause: what Slurm says of the end."""
    where = f" on {nodes}" if nodes else ""
    return {
        "TIMEOUT": f"Slurm's time limit{where}",
        "DEADLINE": "Slurm's deadline",
        "OUT_OF_MEMORY": f"host: more than the job asked for{where}",
        "PREEMPTED": f"a more urgent job took its place{where}",
        "NODE_FAIL": f"Slurm lost {_node(nodes)}",
        "BOOT_FAIL": f"Slurm could not boot {_node(nodes)}",
        "CANCELLED": "by scancel",
        DROPPED: f"Slurm dropped it{where} and names nobody who cancelled it",
    }.get(word(state), f"Slurm says {word(state)}" if state else "")


def _node(nodes: str) -> str:
    if not nodes:
        return "a node"
    return f"one of {nodes}" if any(mark in nodes for mark in ",[") else nodes
