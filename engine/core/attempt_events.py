"""Facts of one attempt, from the moment it may exist until nothing of it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .outcome import Next, Outcome
from .terms import Terms


@dataclass(frozen=True, slots=True)
class TermsFixed:
    """Attempts refer to these terms by number: few sets of them serve a whole deck."""

    number: int
    """From 1."""
    terms: Terms


@dataclass(frozen=True, slots=True)
class AttemptStarting:
    """Slots are taken and a process may exist from here on. On disk before it does."""

    task: str
    attempt: int
    """From 1, never reused."""
    token: str
    fingerprint: str
    gpus: tuple[str, ...]
    """UUIDs, in the order of CUDA_VISIBLE_DEVICES."""
    cpu_slots: int
    """CPU slots held; 0 for a task on GPUs."""
    reserved_mib: int
    """GPU memory reserved on each of its GPUs; 0: none."""
    at: float
    wall: float
    rung: int = 0
    """0: the command as written; k: rung k of on_oom."""
    alone: bool = False
    """No other attempt may come beside it on its GPUs."""
    outputs: tuple[str, ...] = ()
    """What it must leave behind, whatever the file says later."""
    terms: int = 0
    """Number of its terms; 0: those of the file."""
    card_mib: int = 0
    """Memory of the smallest of its GPUs, where [[gpu_profile]] makes that matter; else 0."""
    where: str = ""
    """The cluster that it is given to: "slurm"; empty: this box."""


@dataclass(frozen=True, slots=True)
class StartRevoked:
    """The start never reached the world (fork refused, disk full, log unwritable): not an attempt, nothing charged."""

    task: str
    attempt: int
    why: str
    until: float
    """Not tried again before."""
    taken: int = 0
    """Logs of somebody else have its number: the highest that is not free."""


@dataclass(frozen=True, slots=True)
class AttemptSubmitted:
    """A cluster has taken it under this id, and has not begun it."""

    task: str
    attempt: int
    job: str


@dataclass(frozen=True, slots=True)
class AttemptRunning:
    task: str
    attempt: int
    pid: int
    """The wrapper, leader of the attempt's session."""
    start_ticks: int
    """Field 22 of its /proc/PID/stat: with the pid, its identity on this boot."""
    pid_ns: int = 0
    """Inode of the pid namespace in which the pid means something; 0: not known."""
    job: str = ""
    """The cluster's id of it; empty: this box."""
    nodes: tuple[str, ...] = ()
    """Where a cluster runs it."""
    at: float | None = None
    """When it began, by both clocks; None: as its `AttemptStarting` says."""
    wall: float = 0.0


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Its end is decided, before the first signal. `why` becomes the reason whatever the exit code."""

    task: str
    attempt: int
    why: Literal["cancelled", "timeout", "interrupted", "watch"]
    by: str
    at: float
    kill_at: float


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user gave it up when its end was decided already: it is not tried again, and what it left is stopped."""

    task: str
    attempt: int
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class LeaderEnded:
    """The outcome is fixed; its tree still lives, the slots stay taken."""

    task: str
    attempt: int
    outcome: Outcome
    at: float
    wall: float


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """Nothing of it lives any more; the slots are free; what comes next is decided."""

    task: str
    attempt: int
    outcome: Outcome
    at: float
    """When its leader ended."""
    wall: float
    duration_s: float
    next: Next
    until: float = 0.0
    """For `backoff`: not before."""
    charged: bool = True
    """False: uses no retry."""
    peak_mib: int = 0
    """Highest GPU memory seen on one of its GPUs; 0: not seen."""
    left_behind: tuple[int, ...] = ()
    """Pids that go on by the user's choice."""
    fingerprint: str = ""
    never_ran: bool = False
    """It was stopped before its command was executed."""
    avoid: tuple[str, ...] = ()
    """Nodes of a cluster that may be why: the next attempt goes elsewhere."""
