"""One task: its spec, where it stands and what the run has spent on it; and the run itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .events import PLAIN, RetryOptions
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
    Pruned,
    Running,
    Starting,
    Stopping,
    Succeeded,
    Unknown,
)
from .spec import Policy, TaskSpec

STANDING_OF_PHASE: dict[type[Phase], Standing] = {
    Succeeded: Standing.GOOD,
    Cached: Standing.GOOD,
    Failed: Standing.FAILED,
    Blocked: Standing.BLOCKED,
    Cancelled: Standing.CANCELLED,
    Pruned: Standing.CANCELLED,
}
"""How a task counts for those that wait for it; every other phase is pending."""


class Success(NamedTuple):
    """Work that was done: when, under which name, by which attempt (0: nobody knows), and which work."""

    wall: float
    task: str
    attempt: int
    fingerprint: str


@dataclass(slots=True, eq=False)
class Task:
    """One task: its spec, where it stands, and what this run has spent on it."""

    index: int
    spec: TaskSpec
    entry: Entry
    selected: bool
    phase: Phase = WAITING
    gates: tuple[Gate, ...] = ()
    feeds: tuple[Gate, ...] = ()
    standing: Standing = Standing.PENDING
    held: bool = False
    decided: bool = False
    """Found not to be done already: it will run."""
    proof: int = -1
    """The deck's `proof` of when its result was proven."""
    forced: bool = False
    """Asked for by hand: runs whatever the journal says."""
    again: RetryOptions = PLAIN
    """How it was asked for by hand, until it is taken up otherwise."""
    priority: int = 0
    effective: int = 0
    """The larger of its own priority and that of everything that waits for it."""
    attempts: int = 0
    """Number of the newest attempt, 0 before the first."""
    ended: tuple[Ended, ...] = ()
    retries_used: int = 0
    oom_ends: int = 0
    timeout_ends: int = 0
    """Of those that took a rung of on_timeout."""
    free_requeues: int = 0
    """Requeued uncharged in this run because a reboot killed it."""
    joined_requeues: int = 0
    """Requeued uncharged in this run because it ran out of memory beside somebody who had joined."""
    quarantine_requeues: int = 0
    """Requeued uncharged in this run because its GPU was quarantined."""
    port_retries: int = 0
    """Tried again uncharged in this run because a port that it uses was taken."""
    node_retries: int = 0
    """Tried again uncharged in this run because a node of the cluster was at fault."""
    revoked: int = 0
    """Starts that came to nothing; part of the next token, so that a late process of such a start runs nothing."""
    unfinished: str = ""
    """Fingerprint of the newest attempt that ran and did not succeed; resume_command needs it."""
    avoid: frozenset[str] = frozenset()
    """GPUs that it failed on in this run."""
    avoid_nodes: frozenset[str] = frozenset()
    """Nodes of a cluster that failed under it, or on which it could not start, in this run."""
    settled_in: int = 0
    """The run that counts this task as settled; 0: none."""
    result: str = ""
    """Fingerprint of what its result is of: its newest attempt, or what it was found done as, or accepted as."""
    done_wall: float = 0.0
    """When it was done, by the wall clock; 0: never, or nobody knows."""
    current: bool = False
    """Its gates count it among their dependents that are done and not stale."""
    left_out_done: bool | None = None
    """For a task that --only leaves out: whether those that need it may take it as done; None: the journal decides."""

    act: str = ""
    """The retry or cancel that it is still as left by."""
    gone: bool = False
    """Not in the task file any more: what still runs of it comes to its end."""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def goes_on(self) -> bool:
        """Its next attempt may begin where one before came to, as what that left is there."""
        return self.unfinished == self.spec.fingerprint and not self.again.fresh

    @property
    def written_spec(self) -> TaskSpec:
        """As the file had it when the attempt that lasts began; without one, as it has it now. Rungs are left out."""
        attempt = self.attempt()
        return self.spec if attempt is None or attempt.spec is None else attempt.spec

    @property
    def begun_spec(self) -> TaskSpec:
        """What the attempt that lasts was started as; without one, what the next will be started as. What its rungs
        execute is still to be chosen."""
        attempt = self.attempt()
        if attempt is None:
            return self.spec.asking(self.oom_ends, self.timeout_ends)
        return self.written_spec.asking(attempt.rung, attempt.timeout_rung)

    @property
    def begun_policy(self) -> Policy:
        """What the attempt that lasts is stopped, judged and repeated by: what the file now says, as far as that holds
        at once, unless it wants other work by now."""
        attempt = self.attempt()
        begun = self.begun_spec.policy
        if attempt is None or attempt.spec is None or attempt.fingerprint != self.spec.fingerprint:
            return begun
        return self.spec.asking(attempt.rung, attempt.timeout_rung).policy.for_one_begun_under(begun)

    @property
    def made_by(self) -> tuple[str, int]:
        """Under which name its work was done, and by which attempt; 0: by none that is known."""
        if isinstance(self.phase, Cached) and self.phase.attempt:
            return self.phase.done_as or self.name, self.phase.attempt
        return self.name, next((ended.number for ended in reversed(self.ended) if ended.outcome.ok), 0)

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
    halted_before: str = ""
    """What had halted the run before this one, which a retry has begun: what that left waits on."""
    failures: int = 0
    """Tasks settled as failed in this run."""
    settled: int = 0
    boot_id: str = ""
    host: str = ""
    started_wall: float = 0.0
    options: str = ""
    """The options that it was started with, encoded."""
    part: bool = False
    """Tasks of the file were left out of it."""
