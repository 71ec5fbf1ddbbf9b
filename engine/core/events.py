"""What is written down: the core's decisions, past tense, and the only thing that changes the state (`apply`).

Facts are journalled before they are acted on, and a restore is a replay of them. They carry only ids, numbers and text.
Times: `at` is seconds of CLOCK_BOOTTIME, `wall` is seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal[
    "ok", "exit", "signal", "oom", "timeout", "missing output", "stale output", "watch", "spawn error", "lost",
    "interrupted", "cancelled",
]  # fmt: skip
"""How an attempt ended. `exit` is a code that is not a success; `lost`: proven gone, its code unknown."""

Next = Literal["succeeded", "failed", "cancelled", "backoff", "queued"]
"""Where a task goes when its attempt has ended. `queued`: again at once, nothing charged."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, as far as it is known."""

    reason: Reason
    exit_code: int | None = None
    """As a shell would say it; 129 to 192 may be a signal or an exit. None: not known."""
    signal: int | None = None
    """Only where a signal is certain (we reaped the process itself)."""
    detail: str = ""
    """One line for the user: the exception's last line, the missing path, …"""
    device_fault: bool = False
    """The log names a fault of the device itself (CUDA initialisation, ECC, Xid, lost)."""

    @property
    def ok(self) -> bool:
        return self.reason == "ok"


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run began: everything that it takes up is queued with a fresh budget."""

    run: int
    seed: str
    """Random; tokens of this run's attempts derive from it."""
    at: float
    wall: float
    boot_id: str = ""
    host: str = ""
    takes: tuple[str, ...] = ("new",)
    """Of "new", "failed", "changed", "stale", "cancelled", "all" (all: nothing counts as done)."""
    options: str = ""
    """The run options that were given, encoded; they hold until the run ends."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    run: int
    at: float
    wall: float


@dataclass(frozen=True, slots=True)
class OptionsChanged:
    """An unfinished run goes on with other options."""

    options: str


@dataclass(frozen=True, slots=True)
class BoxRestarted:
    """The box was restarted under an unfinished run: what ran is dead, and clock readings of before mean nothing."""

    boot_id: str
    at: float
    """On the new boot's clock."""
    wall: float


@dataclass(frozen=True, slots=True)
class TaskCached:
    """Done earlier: nothing runs."""

    task: str
    fingerprint: str
    why: str
    """"journal", or "outputs" where only files tell."""
    at: float


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


@dataclass(frozen=True, slots=True)
class StartRevoked:
    """The start never reached the world (fork refused, disk full, log unwritable): not an attempt, nothing charged."""

    task: str
    attempt: int
    why: str
    until: float
    """Not tried again before."""


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


@dataclass(frozen=True, slots=True)
class TaskCancelled:
    """Cancelled while nothing of it ran."""

    task: str
    at: float


@dataclass(frozen=True, slots=True)
class TaskRetried:
    """Asked for again by hand: queued with a fresh budget."""

    task: str
    at: float


@dataclass(frozen=True, slots=True)
class TaskHeld:
    task: str
    held: bool


@dataclass(frozen=True, slots=True)
class PriorityChanged:
    task: str
    priority: int


@dataclass(frozen=True, slots=True)
class DeckPaused:
    paused: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Halted:
    """Enough tasks failed (`halt`): nothing more starts in this run."""

    by: str
    """The task whose failure tipped it."""
    at: float


@dataclass(frozen=True, slots=True)
class GpuQuarantined:
    """Different tasks in a row failed fast on this GPU: nothing starts there but a probe from `probe_at` on."""

    gpu: str
    tasks: tuple[str, ...]
    """Those that failed; each is requeued uncharged for this reason once in a run."""
    at: float
    probe_at: float
    step: int
    """How many probes have failed so far."""


@dataclass(frozen=True, slots=True)
class GpuReleased:
    """A probe passed; or tasks fail fast on every GPU, which says nothing about this one."""

    gpu: str
    at: float
    why: str = ""
    """Empty: a probe passed."""


@dataclass(frozen=True, slots=True)
class GpuJoined:
    """Somebody else began to use a GPU that an attempt of ours is on."""

    gpu: str
    user: str
    pid: int
    used_mib: int
    at: float
    wall: float


@dataclass(frozen=True, slots=True)
class GpuMarked:
    """The user drains a GPU, takes one although others use it, or gives it back to the rules."""

    gpu: str
    mark: Literal["drain", "take", "enable"]


@dataclass(frozen=True, slots=True)
class ShardsFixed:
    """`shards = "gpus"` was resolved, once and for all."""

    entry: str
    shards: int


Fact = (
    RunStarted | RunEnded | OptionsChanged | BoxRestarted | TaskCached | AttemptStarting | StartRevoked
    | AttemptRunning | StopRequested | LeaderEnded | AttemptEnded | TaskCancelled | TaskRetried | TaskHeld
    | PriorityChanged | DeckPaused | Halted | GpuQuarantined | GpuReleased | GpuJoined | GpuMarked | ShardsFixed
)  # fmt: skip

FACTS: tuple[type[Fact], ...] = (
    RunStarted, RunEnded, OptionsChanged, BoxRestarted, TaskCached, AttemptStarting, StartRevoked, AttemptRunning,
    StopRequested, LeaderEnded, AttemptEnded, TaskCancelled, TaskRetried, TaskHeld, PriorityChanged, DeckPaused, Halted,
    GpuQuarantined, GpuReleased, GpuJoined, GpuMarked, ShardsFixed,
)  # fmt: skip
"""Every kind of fact; a journal keeps them by class name and reads old shapes through version-numbered readers."""
