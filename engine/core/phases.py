"""The life of a task as data: its phases, each with what only it can have, and the table of legal moves."""

from __future__ import annotations

from dataclasses import dataclass, field

from .events import Cause, Outcome, StopWhy, Terms
from .spec import TaskSpec


@dataclass(slots=True)
class Attempt:
    """One execution while it lasts: what it holds and what is known of it so far."""

    number: int
    token: str
    fingerprint: str
    gpus: tuple[str, ...]
    cpu_slots: int
    reserved_mib: int
    at: float
    wall: float
    rung: int = 0
    card_mib: int = 0
    """Memory of the smallest of its GPUs, where [[gpu_profile]] makes that matter; else 0."""
    timeout_rung: int = 0
    pid: int = 0
    start_ticks: int = 0
    pid_ns: int = 0
    measured: dict[str, int] = field(default_factory=dict[str, int])
    """GPU memory by UUID (MiB), from the last reading that told it."""
    peak_mib: int = 0
    joined: bool = False
    """Somebody else came onto one of its GPUs while it ran."""
    joined_wall: float = 0.0
    """When that was last told."""
    exit_code: int | None = None
    exited_signal: int | None = None
    exited_at: float | None = None
    gone_at: float | None = None
    """Since when nothing of its tree lives."""
    left_behind: tuple[int, ...] = ()
    spawn_error: str = ""
    never_ran: bool = False
    outcome: Outcome | None = None
    """What its logs and outputs say, once they were examined."""
    examining: bool = False
    unwanted: bool = False
    """Cancelled when its end was already decided: it is not tried again."""
    unwanted_by: str = ""
    """Who cancelled it."""
    alone: bool = False
    """No other attempt may come beside it on its GPUs."""
    beside: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    """Who else computed on its GPUs when it started, or has been noticed since: MiB by pid, by UUID."""
    rebooted: bool = False
    """The box was restarted under it."""
    ends_at: float | None = None
    """When its own progress says that it will end; None: it says nothing."""
    terms: Terms | None = None
    """What it was started under; None: the journal does not tell."""
    counts_as: str = ""
    """The fingerprint under which the user keeps its result; empty: its own."""
    spec: TaskSpec | None = None
    """The task as it was when this attempt began, where the file says otherwise by now."""
    where: str = ""
    """The cluster that it was given to: "slurm"; empty: this box."""
    job: str = ""
    """The cluster's id of it; empty: none yet."""
    nodes: tuple[str, ...] = ()
    """Where the cluster runs it."""
    ended_on: tuple[str, ...] = ()
    """Where its job ended that had not begun it."""
    by_itself: bool = False
    """It ended before a stop that was on its way had reached it."""
    began: bool = True
    """A process of it has existed, or may; False: the cluster has not begun it."""
    pending: str = ""
    """Why the cluster has not begun it, in its word: "Priority"."""
    begins: float | None = None
    """When the cluster expects to begin it, by the wall clock."""
    cause: Cause = ""
    """Why it ended, as the cluster says."""
    cause_detail: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """One execution afterwards."""

    number: int
    outcome: Outcome
    gpus: tuple[str, ...]
    duration_s: float
    peak_mib: int
    wall: float = 0.0
    """When it ended, seconds since the epoch."""
    run: int = 0
    rung: int = 0
    """0: it ran the command as written; k: rung k of on_oom."""
    card_mib: int = 0
    nodes: tuple[str, ...] = ()
    """Where a cluster ran it."""
    job: str = ""
    """The cluster's id of it."""
    timeout_rung: int = 0
    """The same of on_timeout."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A need or an earlier round is not done yet."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Ready as far as other tasks go; waits for slots."""


@dataclass(frozen=True, slots=True)
class Starting:
    """Slots are taken; a process may exist from here on."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Running:
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Stopping:
    """Asked to end. Still holds its slots: a GPU is free only when the process is gone."""

    attempt: Attempt
    why: StopWhy
    by: str
    asked_at: float
    kill_at: float


@dataclass(frozen=True, slots=True)
class Closing:
    """The leader ended, its tree not yet, or its logs are still being read. The slots stay taken."""

    attempt: Attempt
    outcome: Outcome
    why: StopWhy | None = None


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failed, and will be tried again."""

    until: float
    after: Outcome
    wait_s: float
    """From the end before it."""
    wall: float
    """When that was."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    pass


@dataclass(frozen=True, slots=True)
class Cached:
    """Done earlier; nothing ran in this run."""

    why: str
    done_as: str = ""
    """The other name under which it was done."""
    attempt: int = 0
    """Which did it, under that name or its own; 0: nobody knows."""


@dataclass(frozen=True, slots=True)
class Failed:
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Cancelled:
    by: str = ""
    """Who asked, as far as that is known."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """Stopped because it was lost among its peers: neither done nor failed."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A need failed or an earlier round is closed; opens by itself when that is mended."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What became of it cannot be proven. Keeps its slots; the user decides."""

    attempt: Attempt
    outcome: Outcome | None = None
    """Where its leader's end was known before."""
    why: str = ""
    """What speaks against its being gone, where that is known."""


Phase = (
    Waiting | Queued | Starting | Running | Stopping | Closing | Backoff | Succeeded | Cached | Failed | Cancelled
    | Pruned | Blocked | Unknown
)  # fmt: skip

WAITING, QUEUED, SUCCEEDED, PRUNED, BLOCKED = Waiting(), Queued(), Succeeded(), Pruned(), Blocked()

_ENDS: frozenset[type[Phase]] = frozenset({Succeeded, Failed, Cancelled, Backoff, Queued})

LEGAL: dict[type[Phase], frozenset[type[Phase]]] = {
    Waiting: frozenset({Queued, Blocked, Cancelled, Pruned, Succeeded, Cached, Failed, Backoff}),
    Queued: frozenset({Starting, Cached, Waiting, Blocked, Cancelled}),
    Starting: _ENDS | {Running, Stopping, Closing, Unknown},
    Running: _ENDS | {Stopping, Closing, Unknown},
    Stopping: _ENDS | {Pruned, Closing, Unknown},
    Closing: _ENDS | {Pruned, Unknown},
    Backoff: frozenset({Waiting, Cancelled}),
    Unknown: _ENDS | {Pruned, Closing},
    Blocked: frozenset({Waiting, Queued, Cancelled}),
    Succeeded: frozenset({Waiting}),
    Cached: frozenset({Waiting}),
    Failed: frozenset({Waiting}),
    Cancelled: frozenset({Waiting}),
    Pruned: frozenset({Waiting}),
}
"""Every move that a task can make. `Queued` straight from an active phase: again at once, nothing charged. From
`Waiting` to an end, or back to `Backoff`: a retry is taken back."""

ACTIVE = (Starting, Running, Stopping, Closing, Unknown)
"""Phases that hold slots."""
FINAL = (Succeeded, Cached, Failed, Cancelled, Pruned)

NAMES: dict[type[Phase], str] = {phase: phase.__name__.lower() for phase in LEGAL}
"""What people call them."""


class IllegalMoveError(Exception):
    """A bug of ours: a decision asked for a move that no task can make."""
