"""What is written down: the core's decisions, past tense, and the only thing that changes the state (`apply`).

Facts are journalled before they are acted on, and a restore is a replay of them. They carry only ids, numbers and text.
Times: `at` is seconds of CLOCK_BOOTTIME, `wall` is seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from .spec import Policy

Reason = Literal[
    "ok", "exit", "signal", "oom", "timeout", "missing output", "stale output", "watch", "spawn error", "lost",
    "interrupted", "cancelled", "port taken", "preempted", "node_fail", "pruned",
]  # fmt: skip
"""How an attempt ended. `exit` is a code that is not a success; `lost`: proven gone, its code unknown. `port
taken`: a port that it was told to use was another process's. `preempted`: a more urgent command, or on a cluster a more
urgent job, took its place; `node_fail`: a node of the cluster failed. `pruned`: it was lost among its peers."""

Cause = Literal["", "oom", "timeout", "preempted", "node_fail", "cancelled", "launch"]
"""Why an attempt ended, as a cluster says. `timeout`: its own limit; `cancelled`: by somebody who asked the cluster;
`launch`: it could not start the job; empty: nothing that the exit code does not tell."""

StopWhy = Literal["cancelled", "timeout", "interrupted", "watch", "pruned", "preempted"]

Next = Literal["succeeded", "failed", "cancelled", "pruned", "backoff", "queued"]
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


Values = tuple[tuple[str, str], ...]
"""Of variables, in the place of the file's."""


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """How a task that was asked for again by hand runs, until it has settled."""

    fresh: bool = False
    """It begins anew: resume_command does not take the place of the command."""
    env: tuple[tuple[str, str | None], ...] = ()
    """Over the task's own environment; None unsets."""
    not_on: tuple[str, ...] = ()
    """GPUs (UUIDs) that it does not get, as long as enough others exist."""
    changed: bool = False
    """The file has changed it, and it runs as it now says: not what has been done so already, under another name."""


PLAIN = RetryOptions()
CHANGED = RetryOptions(changed=True)


@dataclass(frozen=True, slots=True)
class Terms:
    """By what an attempt is stopped, judged and repeated."""

    policy: Policy
    rungs: int
    """Length of its on_oom ladder."""
    timeout_rungs: int = 0
    """The same of on_timeout."""


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
    timeout_rung: int = 0
    """0: as written; k: rung k of on_timeout."""


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
    why: StopWhy
    by: str
    at: float
    kill_at: float


@dataclass(frozen=True, slots=True)
class PointReached:
    """An attempt has come so far that its task is judged among its peers. With the same facts stands the stop, if that
    is the verdict; it is not judged there again."""

    task: str
    attempt: int
    metric: str
    """ "val_loss:min"."""
    point: float
    """Share of its progress, as the task file has it."""
    value: float | None
    """The best until then; None: what it reported last is not a number."""


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
    part: bool = False
    """Tasks of the file were left out of it."""


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
    done_as: str = ""
    """The other name under which it was done; empty: its own, or nobody knows."""
    attempt: int = 0
    """Which did it; 0: nobody knows."""


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
    given_before: Values | None = None
    """Where it was given values in the place of the file's: those that it had until then."""


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
    | GpuJoined | GpuMarked | ShardsFixed | TakenBack | AttemptSubmitted | ResultSpoilt | PointReached
)  # fmt: skip

FACTS: tuple[type[Fact], ...] = get_args(Fact)
"""Every kind of fact; a journal keeps them by class name and reads old shapes through version-numbered readers."""


@dataclass(frozen=True, slots=True)
class Unproven:
    """It may be alive: it keeps its slots."""

    why: str = ""
    """What speaks against its being gone, one line; "": nothing in particular."""


Fate = Literal["adopted", "ended", "never ran", "lost"] | Unproven
"""*adopted*: something of it runs; *ended*: how, was written; *never ran*; *lost*: proven to be gone without a code."""
