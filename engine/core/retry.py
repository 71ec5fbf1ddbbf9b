"""What comes after an end: done, failed, again after a while, or again at once."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from .apply_attempt import rungs_of
from .deck import Task
from .outcome import Next, Outcome
from .phases import Attempt

LONGEST_BACKOFF_S = 600.0
JITTER = 0.2
FREE_REQUEUES = 3
"""How often one run takes a task up again, uncharged, that a reboot killed."""
PORT_RETRIES = 3
"""How often one run tries a task again, uncharged, whose port was another process's."""
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


@dataclass(frozen=True, slots=True)
class Decision:
    next: Next
    until: float = 0.0
    charged: bool = True


def decide(
    task: Task, attempt: Attempt, outcome: Outcome, *, at: float, cancelled: bool, halted: bool, rebooted: bool = False
) -> Decision:
    """Where the task goes. *cancelled*: the user no longer wants it; *halted*: the run makes no retries."""
    if outcome.ok:
        return Decision("succeeded")
    if outcome.reason == "cancelled" or cancelled:
        return Decision("cancelled")
    if outcome.reason == "interrupted":
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
            return Decision("queued") if task.oom_ends < rungs else Decision("failed")
    if outcome.reason == "port taken" and task.port_retries < PORT_RETRIES:
        return Decision("backoff", at + backoff_s(PORT_BACKOFF_S, task.port_retries, attempt.token), charged=False)
    policy = task.begun_policy
    covered = any(word in policy.retry_on for word in _CATEGORIES.get(outcome.reason, ()))
    if not covered or task.retries_used >= policy.retries:
        return Decision("failed")
    return Decision("backoff", at + backoff_s(policy.backoff_s, task.retries_used, attempt.token))


def backoff_s(first_s: float, used: int, token: str) -> float:
    """Doubles with each retry, ten minutes at most, spread by a fifth; the same token always gives the same wait."""
    spread = 1 - JITTER + 2 * JITTER * (crc32(token.encode()) / 0xFFFFFFFF)
    return min(first_s * 2.0 ** min(used, 30), LONGEST_BACKOFF_S) * spread
