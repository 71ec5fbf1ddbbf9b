"""One task: its spec, where it stands and what the run has spent on it; and the run itself."""

from __future__ import annotations

from dataclasses import dataclass

from .gates import Gate, Standing
from .learned import Entry
from .phases import (
    WAITING,
    Attempt,
    Blocked,
    Cached,
    Cancelled,
    Closing,
    Ended,
    Failed,
    Phase,
    Running,
    Starting,
    Stopping,
    Succeeded,
    Unknown,
)
from .spec import TaskSpec

STANDING_OF_PHASE: dict[type[Phase], Standing] = {
    Succeeded: Standing.GOOD,
    Cached: Standing.GOOD,
    Failed: Standing.FAILED,
    Blocked: Standing.FAILED,
    Cancelled: Standing.CANCELLED,
}
"""How a task counts for those that wait for it; every other phase is pending."""


@dataclass(frozen=True, slots=True)
class Success:
    fingerprint: str
    wall: float


@dataclass(slots=True, eq=False)
class Task:
    """One task: its spec, where it stands, and what this run has spent on it."""

    index: int
    spec: TaskSpec
    entry: Entry
    phase: Phase = WAITING
    gates: tuple[Gate, ...] = ()
    feeds: tuple[Gate, ...] = ()
    standing: Standing = Standing.PENDING
    selected: bool = True
    held: bool = False
    decided: bool = False
    """Found not to be done already: it will run."""
    forced: bool = False
    """Asked for by hand: runs whatever the journal says."""
    priority: int = 0
    effective: int = 0
    """The larger of its own priority and that of everything that waits for it."""
    attempts: int = 0
    """Number of the newest attempt, 0 before the first."""
    ended: tuple[Ended, ...] = ()
    retries_used: int = 0
    oom_ends: int = 0
    free_requeues: int = 0
    """Requeued uncharged (lost by a reboot, a colleague joined) in this run."""
    quarantine_requeues: int = 0
    """Requeued uncharged in this run because its GPU was quarantined."""
    revoked: int = 0
    """Starts that came to nothing; part of the next token, so that a late process of such a start runs nothing."""
    unfinished: str = ""
    """Fingerprint of the newest attempt that ran and did not succeed; resume_command needs it."""
    avoid: frozenset[str] = frozenset()
    """GPUs that it failed on in this run."""
    settled_in: int = 0
    """The run that counts this task as settled; 0: none."""
    left_out_done: bool | None = None
    """For a task that --only leaves out: whether those that need it may take it as done; None: the journal decides."""

    @property
    def name(self) -> str:
        return self.spec.name

    def attempt(self) -> Attempt | None:
        """The attempt that lasts now."""
        phase = self.phase
        return phase.attempt if isinstance(phase, (Starting, Running, Stopping, Closing, Unknown)) else None


@dataclass(slots=True)
class Run:
    """From its start until the deck is settled; an engine's death does not end it."""

    number: int = 0
    seed: str = ""
    takes: frozenset[str] = frozenset()
    ended: bool = True
    halted: str = ""
    failures: int = 0
    """Tasks settled as failed in this run."""
    settled: int = 0
    boot_id: str = ""
    host: str = ""
    started_wall: float = 0.0
    options: str = ""
    """The options that it was started with, encoded."""
