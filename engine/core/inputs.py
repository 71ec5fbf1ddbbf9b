"""What tells the core of the world outside: ends, readings, time, what users ask for.

Inputs are not journalled; what they lead to is. Times: `at` is seconds of CLOCK_BOOTTIME.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .events import PLAIN, Cause, Outcome, RetryOptions, Values
from .readings import GpuReading as GpuReading
from .readings import Process as Process


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; due deadlines are acted on and free slots are filled."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A cluster has taken an attempt; it waits there to begin."""

    token: str
    job: str
    """The cluster's id of it: "1234", or "1234_7" in an array."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Why a cluster has not begun an attempt yet."""

    token: str
    why: str
    """Its word: "Priority", "Resources"."""
    begins: float | None = None
    """When it expects to begin it, by the wall clock; None: it does not say."""


@dataclass(frozen=True, slots=True)
class Spawned:
    """The wrapper of an attempt exists."""

    token: str
    pid: int = 0
    """0: on another machine."""
    start_ticks: int = 0
    pid_ns: int = 0
    at: float | None = None
    """When it began, where that is not now."""
    nodes: tuple[str, ...] = ()
    """Where a cluster runs it."""
    job: str = ""


@dataclass(frozen=True, slots=True)
class SpawnRefused:
    """No process came to be: fork refused, disk full, a GPU taken by another deck. Not an attempt."""

    token: str
    why: str
    claimed: tuple[tuple[str, str], ...] = ()
    """GPUs of it (UUIDs) that another deck has, and who that is."""
    taken: int = 0
    """Where logs of somebody else have its number: the highest that is not free."""


@dataclass(frozen=True, slots=True)
class LeaderExited:
    """The command's process is gone."""

    token: str
    code: int | None
    """As the wrapper or waitpid tells it, 128 + n for signal n; None: nobody can know."""
    at: float
    signal: int | None = None
    """Where waitpid told of a signal."""
    spawn_error: str = ""
    """It never ran: "no such command: trian.py", "no such folder: …"."""
    cause: Cause = ""
    """Why it ended, as the cluster says; empty: it says nothing that the code does not tell."""
    detail: str = ""
    """The same in words, one line."""
    nodes: tuple[str, ...] = ()
    """Where a cluster's job ended that ran nothing; empty: not told."""
    by_itself: bool = False
    """It ended before any stop had reached it: known where that may take a second."""


@dataclass(frozen=True, slots=True)
class TreeGone:
    """Nothing of an attempt lives any more, but for what was left behind on purpose."""

    token: str
    at: float
    left_behind: tuple[int, ...] = ()
    never_ran: bool = False
    """Proven: the command was not and will not be executed; no `LeaderExited` came before."""
    why: str = ""
    """What kept it from running, where that is known: "its log cannot be written"."""


@dataclass(frozen=True, slots=True)
class Examined:
    """The answer to `Examine`: what logs and outputs say about an end."""

    token: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class DoneChecked:
    """The answer to `CheckDone`, for one task."""

    task: str
    are_result: bool
    """Its outputs are there, and nothing speaks against them (`output_history.doubt`)."""
    spoilt: bool = False
    """They are there, and something does."""


@dataclass(frozen=True, slots=True)
class DevicesSampled:
    """A reading of every GPU of the deck, of the host's memory, or of its disks."""

    readings: tuple[GpuReading, ...]
    mem_available_mib: int | None = None
    claimed: Mapping[str, str] | None = None
    """GPUs that other decks have, and who: "deck pets-sweep of alice has it (engine 8123)". None: not asked."""
    disk_free_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """What an attempt's own output says of when it will end."""

    token: str
    eta_s: float | None
    """Seconds from now to its end; None: not known any more."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A watch rule of an attempt whose action is "fail" or "succeed" has hit."""

    token: str
    why: str
    """One line: "silent for 30 min"."""


@dataclass(frozen=True, slots=True)
class ReachedPoint:
    """An attempt has passed a point of its `prune` table."""

    token: str
    metric: str
    """ "val_loss:min": what it was followed by."""
    point: float
    value: float | None
    """The best until then; None: what it reported last is not a number."""


@dataclass(frozen=True, slots=True)
class JournalState:
    """Whether the journal can be written."""

    writable: bool
    why: str = ""
    """What keeps it from being written."""


@dataclass(frozen=True, slots=True)
class Verb:
    """What a user asks for, on tasks by name, or on the deck with none."""

    verb: Literal["cancel", "kill", "retry", "accept", "hold", "release", "pause", "unpause", "priority", "undo"]
    tasks: tuple[str, ...] = ()
    value: int = 0
    """Of priority."""
    by: str = "user"
    again: RetryOptions = PLAIN
    """Of retry."""
    downstream: bool = False
    """Of retry: all finished tasks that build on these, directly or not, run again after them."""
    act: str = ""
    """What this is remembered as, to be taken back; of undo: what is taken back."""
    given_before: Mapping[str, Values] = field(default_factory=dict[str, Values])
    """Of retry: by name, the values that tasks had which were given others for it."""
    did: list[str] = field(default_factory=list[str], compare=False)
    """The tasks to which it has done something, once that is decided."""


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop these attempts, which can be gone on from, for a more urgent task: all of them, or none where one has ended
    or is being stopped already."""

    tokens: tuple[str, ...]
    by: str
    """The task that takes the place."""
    did: list[str] = field(default_factory=list[str], compare=False)
    """The tasks that are stopped, once that is decided."""


@dataclass(frozen=True, slots=True)
class GpuVerb:
    verb: Literal["drain", "take", "enable"]
    gpu: str
    act: str = ""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The engine was told to end its tasks: they are interrupted; `now`: KILL at once."""

    now: bool
    by: str
    grace_s: float | None = None
    """Caps the tasks' own grace."""


OfAttempt = (
    Submitted | Pending | Spawned | SpawnRefused | LeaderExited | TreeGone | Examined | Progressed | Watched
    | ReachedPoint
)  # fmt: skip
"""What is told of an attempt; of one that does not last any more it means nothing."""
Input = OfAttempt | Tick | DoneChecked | DevicesSampled | JournalState | Verb | Preempt | GpuVerb | Shutdown
