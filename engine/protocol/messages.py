"""What an observer of a deck is told, one message per event: headless lines, JSON lines and the summary are made of
nothing else. Frozen; times in seconds; `at` counts from the start of the run, `wall` is seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from .counts import Counts


@dataclass(frozen=True, slots=True)
class DeckOpened:
    """The first message of a run."""

    deck: str
    file: str
    run: int
    continued: bool
    """True: an unfinished run goes on."""
    gpus: tuple[str, ...]
    """A line for each GPU: "0  NVIDIA A40  44.5 GiB  GPU-5f2a…"."""
    slots: int
    """GPU tasks that run at once; of a deck without any, CPU tasks."""
    simulated: bool
    counts: Counts
    log_dir: str
    warnings: tuple[str, ...]
    wall: float
    backend: Literal["local", "slurm"] = "local"
    """Where its tasks run; on "slurm", `slots` are the jobs that it submits at once."""


@dataclass(frozen=True, slots=True)
class TaskSubmitted:
    """A cluster has taken an attempt, and has not begun it."""

    task: str
    attempt: int
    job: str
    """The cluster's id of it: "1234", or "1234_7" in an array."""
    at: float
    wall: float
    adopted: bool = False
    """It was handed over before this engine began."""


@dataclass(frozen=True, slots=True)
class TaskStarted:
    task: str
    attempt: int
    gpus: tuple[int, ...]
    """Indices; empty: a CPU task."""
    pid: int
    log: str
    """Path of attempt-N.log, relative to the caller's folder where that is shorter."""
    at: float
    wall: float
    rung: int = 0
    timeout_rung: int = 0
    resumed: bool = False
    command: str = ""
    """As a shell would take it, secrets masked."""
    gpu_profile: str = ""
    """The [[gpu_profile]] of its GPUs, by its memory as written; empty: none."""
    mixed: str = ""
    """A warning that its GPUs are of several models: "mixed models: NVIDIA A40 and NVIDIA H100"."""
    job: str = ""
    """The cluster's id of it; empty: it runs on this box."""
    nodes: tuple[str, ...] = ()
    """Nodes of the cluster that it runs on."""


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """An attempt ended. `next` tells whether the task did too."""

    task: str
    attempt: int
    gpus: tuple[int, ...]
    outcome: Literal["ok", "failed", "cancelled", "pruned", "interrupted", "lost"]
    reason: str
    """One line: "exit 1: ValueError: bad rate", "137 (KILL or exit 137)", "timeout after 3 h", …"""
    exit_code: int | None
    next: Literal["succeeded", "failed", "cancelled", "pruned", "backoff", "queued"]
    retry_in_s: float
    duration_s: float
    peak_mib: int | None
    mean_util_percent: float | None
    log: str
    err: str
    digest: tuple[str, ...]
    """The lines that tell why, for an end that is not ok: the right traceback, else the last 20 lines."""
    at: float
    wall: float
    left_behind: tuple[int, ...] = ()
    telling: str = ""
    """The one of `log` and `err` that has something to read about a failure."""
    energy_wh: float | None = None
    job: str = ""
    nodes: tuple[str, ...] = ()
    kind: str = ""
    """How it ended, in one of the words that `reason:` takes: exit, signal, oom, timeout, …"""


@dataclass(frozen=True, slots=True)
class TaskSettled:
    """A task reached an end without an attempt: cached, blocked, cancelled while it waited."""

    task: str
    state: Literal["cached", "blocked", "cancelled"]
    why: str
    at: float
    wall: float


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know now: a GPU lost, a colleague who joined, a full disk, a halt, a signal."""

    level: Literal["info", "warning", "error"]
    text: str
    at: float
    wall: float


@dataclass(frozen=True, slots=True)
class RunningTask:
    task: str
    attempt: int
    gpus: tuple[int, ...]
    elapsed_s: float
    expected_s: float | None
    """Expected length of the whole attempt."""
    log: str
    job: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuLine:
    index: int
    tasks: tuple[str, ...]
    util_percent: int | None
    used_mib: int | None
    total_mib: int | None
    note: str = ""
    """Why it is not used: "alice uses it (31 GiB, pid 4711)", "lost: GPU is lost", "quarantined", …"""


@dataclass(frozen=True, slots=True)
class Status:
    """How things stand: for status lines and the live display."""

    counts: Counts
    running: tuple[RunningTask, ...]
    gpus: tuple[GpuLine, ...]
    waiting_why: tuple[str, ...]
    """The most common reasons why something waits, longest first: "14 tasks: every GPU is busy"."""
    eta_s: float | None
    """Seconds until everything that can run has run; with `unmeasured` tasks at least so many; None: not known."""
    at: float
    wall: float
    unmeasured: int = 0
    """Tasks that have still to run and whose length nobody knows."""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    task: str
    state: str
    """succeeded, cached, failed, cancelled, pruned, blocked, waiting, …"""
    attempts: int
    gpus: tuple[int, ...]
    duration_s: float | None
    """Of the last attempt."""
    reason: str
    log: str
    """Of the last attempt, "" without one."""
    digest: tuple[str, ...] = ()
    job: str = ""
    """Of the last attempt, on a cluster."""
    nodes: tuple[str, ...] = ()
    kind: str = ""
    """How the last attempt ended: exit, signal, oom, timeout, …; "" where it succeeded, or there is none."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The last message of a run."""

    exit_code: int
    counts: Counts
    rows: tuple[SummaryRow, ...]
    wall_s: float
    task_s: float
    """Sum of the attempts' durations."""
    gpu_busy_s: dict[int, float] = field(default_factory=dict[int, float])
    """Seconds with one of our attempts on it, by index."""
    ended: bool = True
    """False: the run can be continued (a signal, the engine's stop)."""
    why: str = ""
    """"halted by train-3", "130: stopped by SIGINT", …"""
    spent: bool = False
    """The budget lets nothing more start before the file gives more."""
    wall: float = 0.0
    energy_wh: float | None = None
    """Of the attempts that ended in this run, as far as it is known."""


Message = DeckOpened | TaskSubmitted | TaskStarted | TaskEnded | TaskSettled | Note | Status | RunFinished


def reworded(message: Message, words: Callable[[str], str]) -> Message:
    """*message* with *words* made of each of its sentences that may name a command."""
    match message:
        case Note():
            return replace(message, text=words(message.text))
        case DeckOpened():
            return replace(message, warnings=tuple(map(words, message.warnings)))
        case Status():
            return replace(message, waiting_why=tuple(map(words, message.waiting_why)))
        case _:
            return message
