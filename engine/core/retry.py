"""What comes after an end: done, failed, again after a while, or again at once."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from .apply_attempt import rungs_of, timeout_rungs_of
from .deck import Task
from .events import Next, Outcome
from .phases import Attempt

LONGEST_BACKOFF_S = 600.0
JITTER = 0.2
FREE_REQUEUES = 3
"""How often one run takes a task up again, uncharged, that a reboot killed."""
PORT_RETRIES = 3
"""How often one run tries a task again, uncharged, whose port was another process's."""
NODE_RETRIES = 5
"""How often one run tries a task again, uncharged, under which nodes of a cluster failed: as often as Slurm itself
(max_batch_requeue). A command that takes its nodes down does not go through all of them."""
CLUSTER_BACKOFF_S = 10.0
"""Before a task that the cluster has let down is given to it again: what follows is the queue's business."""
PORT_BACKOFF_S = 5.0
"""Before the first of these; then it doubles: a process that just ended lets go of its port, one that runs does not."""

_CATEGORIES = {
    "exit": ("fail",),
    "signal": ("fail", "signal"),
    "missing output": ("fail",),
    "stale output": ("fail",),
    "watch": ("fail", "watch"),
    "oom": ("oom",),
    "timeout": ("timeout",),
    "lost": ("lost",),
    "port taken": ("fail",),
    "preempted": ("preempted",),
    "node_fail": ("node_fail",),
}
"""Which words of retry_on cover a reason. A command that cannot be started at all is never tried again."""
_STEPS = ("timeout", "preempted", "node_fail")
"""Ends that a task with a resume_command goes on from: no row of failures."""


@dataclass(frozen=True, slots=True)
class Decision:
    next: Next
    until: float = 0.0
    charged: bool = True


def decide(
    task: Task,
    attempt: Attempt,
    outcome: Outcome,
    *,
    at: float,
    cancelled: bool,
    halted: bool,
    rebooted: bool = False,
    node: bool = False,
) -> Decision:
    """Where the task goes. *cancelled*: the user no longer wants it; *halted*: the run makes no retries; *node*: one of
    the cluster's is at fault."""
    if outcome.ok:
        return Decision("succeeded")
    if outcome.reason == "cancelled" or cancelled:
        return Decision("cancelled")
    if outcome.reason == "pruned":
        return Decision("pruned")
    if outcome.reason == "interrupted" or (outcome.reason == "preempted" and not attempt.where):
        return Decision("queued", charged=False)
    if outcome.reason == "lost" and rebooted and task.free_requeues < FREE_REQUEUES:
        return Decision("queued", charged=False)
    if halted:
        return Decision("failed")
    if outcome.reason == "oom":
        if attempt.joined and not task.joined_requeues:
            return Decision("queued", charged=False)
        rungs = rungs_of(task, attempt)
        if rungs:
            return Decision("queued") if max(task.oom_ends, attempt.rung) < rungs else Decision("failed")
    if outcome.reason == "timeout" and max(task.timeout_ends, attempt.timeout_rung) < timeout_rungs_of(task, attempt):
        return Decision("queued")
    if outcome.reason == "port taken" and task.port_retries < PORT_RETRIES:
        return Decision("backoff", at + backoff_s(PORT_BACKOFF_S, task.port_retries, attempt.token), charged=False)
    policy = task.begun_policy
    covered = any(word in policy.retry_on for word in _CATEGORIES.get(outcome.reason, ()))
    free = outcome.reason == "preempted" or (node and task.node_retries < NODE_RETRIES)
    if free and (covered or outcome.reason not in ("preempted", "node_fail")):
        return Decision("backoff", at + backoff_s(CLUSTER_BACKOFF_S, 0, attempt.token), charged=False)
    if not covered or task.retries_used >= policy.retries:
        return Decision("failed")
    return Decision("backoff", at + backoff_s(policy.backoff_s, _in_a_row(task, outcome), attempt.token))


def _in_a_row(task: Task, outcome: Outcome) -> int:
    """Retries that came to nothing before this end. One that reached its time limit has got on, where the next goes on
    from there: a chain of those waits no longer each time."""
    if task.begun_spec.resume is None:
        return task.retries_used
    reasons = [outcome.reason, *(ended.outcome.reason for ended in reversed(task.ended))]
    steps = (before for before, reason in enumerate(reasons) if reason in _STEPS)
    return min(task.retries_used, max(0, next(steps, len(reasons)) - 1))


def backoff_s(first_s: float, used: int, token: str) -> float:
    """Doubles with each retry, ten minutes at most, spread by a fifth; the same token always gives the same wait."""
    spread = 1 - JITTER + 2 * JITTER * (crc32(token.encode()) / 0xFFFFFFFF)
    return min(first_s * 2.0 ** min(used, 30), LONGEST_BACKOFF_S) * spread
