"""What is written down: the core's decisions, past tense, and the only thing that changes the state (`apply`).

Facts are journalled before they are acted on, and a restore is a replay of them. They carry only ids, numbers and text.
Times: `at` is seconds of CLOCK_BOOTTIME, `wall` is seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .attempt_events import (
    AttemptEnded,
    AttemptRunning,
    AttemptStarting,
    AttemptSubmitted,
    CancelRequested,
    LeaderEnded,
    StartRevoked,
    StopRequested,
    TermsFixed,
)
from .outcome import Next as Next
from .outcome import Outcome as Outcome
from .outcome import Reason as Reason
from .terms import CHANGED as CHANGED
from .terms import PLAIN, RetryOptions
from .terms import Terms as Terms


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
    """Of "new", "failed", "changed", "stale", "cancelled", "all" (all: nothing counts as done), "retry" (begun by a
    verb: nothing but what that names)."""
    options: str = ""
    """The run options that were given, encoded; they hold until the run ends."""
    act: str = ""
    """What asked for it, where a user's verb did."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    run: int
    at: float
    wall: float


@dataclass(frozen=True, slots=True)
class OptionsChanged:
    """A run goes on with other options, or the next one that a verb begins has them."""

    options: str


@dataclass(frozen=True, slots=True)
class TakesChanged:
    """An unfinished run goes on under an engine that takes up other tasks: a screen's instead of a headless one."""

    takes: tuple[str, ...]


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
    wall: float = 0.0
    """When it was done, as far as that is known; 0: the fact does not tell."""


@dataclass(frozen=True, slots=True)
class TaskCancelled:
    """Cancelled while nothing of it ran."""

    task: str
    at: float
    by: str = ""
    act: str = ""
    """What was asked for, to take it back by; empty: nobody can."""


@dataclass(frozen=True, slots=True)
class TaskRetried:
    """Asked for again by hand, or changed by the file: queued with a fresh budget."""

    task: str
    at: float
    again: RetryOptions = PLAIN
    by: str = ""
    """Empty: nobody asked, the file was changed."""
    act: str = ""


@dataclass(frozen=True, slots=True)
class ResultSpoilt:
    """Another attempt has had a finished task's outputs since, and what is there is no result of it any more: it runs
    again, since something needs it."""

    task: str
    at: float


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A retry that has not started, or a cancel, was taken back: the task is as it was before."""

    task: str
    act: str
    verb: str
    """retry or cancel."""
    at: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class TaskAccepted:
    """The user keeps its result, although the file has changed or something that it builds on ran again."""

    task: str
    fingerprint: str
    """What its result counts as from now on."""
    at: float
    wall: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class TaskHeld:
    task: str
    held: bool
    by: str = ""
    act: str = ""


@dataclass(frozen=True, slots=True)
class PriorityChanged:
    task: str
    priority: int
    by: str = ""
    act: str = ""


@dataclass(frozen=True, slots=True)
class DeckPaused:
    paused: bool
    why: str = ""
    act: str = ""


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
    act: str = ""


@dataclass(frozen=True, slots=True)
class ShardsFixed:
    """`shards = "gpus"` was resolved, once and for all."""

    entry: str
    shards: int


Fact = (
    RunStarted | RunEnded | OptionsChanged | TakesChanged | BoxRestarted | TaskCached | TermsFixed | AttemptStarting
    | StartRevoked | AttemptRunning | StopRequested | CancelRequested | LeaderEnded | AttemptEnded | TaskCancelled
    | TaskRetried | TaskAccepted | TaskHeld | PriorityChanged | DeckPaused | Halted | GpuQuarantined | GpuReleased
    | GpuJoined | GpuMarked | ShardsFixed | TakenBack | AttemptSubmitted | ResultSpoilt
)  # fmt: skip

FACTS: tuple[type[Fact], ...] = (
    RunStarted, RunEnded, OptionsChanged, TakesChanged, BoxRestarted, TaskCached, TermsFixed, AttemptStarting,
    StartRevoked, AttemptRunning, StopRequested, CancelRequested, LeaderEnded, AttemptEnded, TaskCancelled, TaskRetried,
    TaskAccepted, TaskHeld, PriorityChanged, DeckPaused, Halted, GpuQuarantined, GpuReleased, GpuJoined, GpuMarked,
    ShardsFixed, TakenBack, AttemptSubmitted, ResultSpoilt,
)  # fmt: skip
"""Every kind of fact; a journal keeps them by class name and reads old shapes through version-numbered readers."""
