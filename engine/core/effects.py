"""Work that a decision leaves for the shell. Done only after the facts of the same step are on disk; idempotent."""

from __future__ import annotations

from dataclasses import dataclass

from .spec import StopScope


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the process of an attempt. Answered by `Spawned` or `SpawnRefused`."""

    task: str
    attempt: int
    token: str
    gpus: tuple[str, ...]
    rung: int
    may_resume: bool
    """An earlier attempt of the same fingerprint ran without succeeding: `resume_command` may take its place."""
    env: tuple[tuple[str, str | None], ...] = ()
    """What a retry by hand puts over the task's own environment; None unsets."""
    card_mib: int = 0
    """Memory of the smallest of its GPUs, where [[gpu_profile]] makes that matter."""
    again: bool = False
    """A start under this number has come to nothing."""
    timeout_rung: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """Begin the stop sequence: the signal to the scope, then to the rest of the tree, KILL after the grace."""

    token: str
    signal: str
    scope: StopScope
    grace_s: float
    """0: KILL at once."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Send the warn signal to those processes that handle it, and to nobody else."""

    token: str
    signal: str


@dataclass(frozen=True, slots=True)
class Examine:
    """Read what an ended attempt left (log tails, outputs) and answer with `Examined`."""

    token: str
    task: str
    attempt: int
    exit_code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True)
class CheckDone:
    """Look whether these tasks' outputs exist and are results; answer each with `DoneChecked`."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gather:
    """Keep *gpus* from other decks as they come free, while *task* waits for several; none: let go."""

    gpus: tuple[str, ...]
    task: str = ""
    first: tuple[str, ...] = ()
    """Of these the user's other decks leave the first that comes free to this one, whose next task waits."""


Effect = Launch | Stop | Warn | Examine | CheckDone | Gather
