"""What a cluster says about an end, as an outcome."""

from __future__ import annotations

from typing import assert_never

from .outcome import Outcome
from .phases import Attempt
from .spec import Policy


def outcome_by_cause(attempt: Attempt, policy: Policy) -> Outcome | None:
    """How a cluster says that an attempt ended; None: its exit code and its logs tell more."""
    code, signal, detail = attempt.exit_code, attempt.exited_signal, attempt.cause_detail
    match attempt.cause:
        case "":
            lost = code is None and signal is None and detail
            return Outcome("lost", detail=detail) if lost else None
        case "oom":
            if code in policy.success_codes:
                # A whole job counts as out of memory when any process of it was killed, also one that was not missed.
                return None
            return Outcome("oom", code, signal, detail or "host: more than the job asked for")
        case "timeout":
            return Outcome("timeout", code, signal, detail or "Slurm's time limit")
        case "preempted":
            return Outcome("preempted", code, signal, detail or "a more urgent job took its place")
        case "node_fail":
            return Outcome("node_fail", code, signal, detail or _failed(attempt.nodes))
        case "cancelled":
            return Outcome("cancelled", code, signal, detail or "by scancel")
        case "launch":
            return Outcome("spawn error", code, None, detail or "Slurm could not launch it")
        case _:
            assert_never(attempt.cause)


def _failed(nodes: tuple[str, ...]) -> str:
    if not nodes:
        return "a node failed"
    return f"{', '.join(nodes)} failed" if len(nodes) == 1 else f"one of {', '.join(nodes)} failed"
