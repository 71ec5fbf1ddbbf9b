"""What the engine needs from the world. The docstrings are the contract; tests/contract runs them on fake and real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .core.events import Fact
from .core.inputs import GpuReading, Input
from .core.spec import Leftovers, StopScope

Sink = Callable[[Input], None]
"""Takes an input into the loop. Called on the loop's thread unless a port says otherwise."""


@dataclass(frozen=True, slots=True)
class Instant:
    boot_s: float
    """Seconds of CLOCK_BOOTTIME: deadlines."""
    wall_s: float
    """Seconds since the epoch: for people."""


class Clock(Protocol):
    def now(self) -> Instant: ...


class SpawnRefusedError(Exception):
    """No process came to be and none will: fork refused (EAGAIN, ENOMEM), no space. One line."""


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Everything an attempt's process is made of. Paths are absolute."""

    token: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment."""
    cwd: str
    stdout: str
    """Opened in append mode by the attempt itself; its folder exists."""
    stderr: str
    """The same path as stdout where the streams are merged."""
    leftovers: Leftovers = "stop"
    claims: tuple[str, ...] = ()
    """UUIDs of its GPUs."""


@dataclass(frozen=True, slots=True)
class Known:
    """An attempt of an earlier engine, as the journal knows it."""

    token: str
    pid: int
    """0: its start was never recorded."""
    start_ticks: int
    leftovers: Leftovers = "stop"


_T = TypeVar("_T")


class Aside(Protocol):
    """Work that may hang, away from the loop: a log on a dead file server."""

    def submit(self, work: Callable[[], _T], done: Callable[[_T | None], None], *, timeout_s: float = 2.0) -> None:
        """Run *work*, which must not raise, then *done* on the loop's thread with its result; with None if it hangs."""
        ...

    def close(self) -> None:
        """Drop what is pending. Returns at once."""
        ...


class Launcher(Protocol):
    """Runs attempts as process trees. All calls on the loop's thread; none blocks on the process."""

    def start(self, order: StartOrder) -> tuple[int, int]:
        """Start an attempt: (pid, start_ticks) of its session leader.

        From here on the sink gets exactly one `LeaderExited` and, after it, exactly one `TreeGone` for this token; or
        `TreeGone(never_ran=True)` alone where its log or record cannot be written.
        Raises SpawnRefusedError when no process came to be. The same token is never started twice.
        """
        ...

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, str]:
        """Find out what became of attempts of an earlier engine, by record file, pid and start time.

        Returns by token "adopted" (runs; the sink gets its end), "ended" (the sink gets `LeaderExited` and `TreeGone`
        with what the record tells), "never ran" (the sink gets `TreeGone(never_ran=True)`), "lost" (proven absent
        without a code; the sink gets `LeaderExited(code=None)` and `TreeGone`) or "unknown" (not provable; the sink
        gets nothing).
        """
        ...

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """Signal the scope, then the rest of the tree, KILL after *grace_s*. Gone is not an error; again restarts it
        only when it is sooner."""
        ...

    def warn(self, token: str, signal: int) -> int:
        """Send *signal* to the members that catch it. Returns how many did."""
        ...

    def members(self) -> Mapping[int, str]:
        """Pid -> token for every process known to belong to an attempt."""
        ...

    def forget(self, token: str) -> None:
        """Its end is on disk: drop the record. Idempotent."""
        ...

    def close(self) -> None:
        """Let go of everything; processes go on."""
        ...


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """What does not change about a GPU."""

    uuid: str
    index: int
    """NVML's index (PCI bus order) at this boot."""
    name: str
    total_mib: int | None
    """None where memory is unified or not told."""
    mig: bool = False
    slowdown_c: int | None = None
    power_limit_w: float | None = None
    simulated: bool = False
    links: Mapping[str, int] | None = None
    """Closeness to other GPUs by UUID, higher is nearer (NVLink > same switch > same host bridge > system); None: the
    topology is not known."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The GPUs of a box."""

    gpus: tuple[GpuInfo, ...]
    driver: str = ""
    error: str = ""
    """NVML's words when NVIDIA hardware is there and its driver does not answer; empty otherwise."""
    hardware: bool = False
    """NVIDIA devices exist (/dev/nvidia*, PCI)."""


class GpuProbe(Protocol):
    """Looks at GPUs. Sampling happens in a thread of its own and never blocks the caller, however the driver hangs."""

    def discover(self) -> Inventory:
        """List the GPUs. May take seconds; raises nothing."""
        ...

    def start(self, uuids: Sequence[str], sink: Callable[[tuple[GpuReading, ...]], None], *, period_s: float) -> None:
        """Sample these GPUs every *period_s*; *sink* is called from the sampler's thread with processes not yet
        attributed (token "", user filled in where visible). A hung call delivers nothing until it returns."""
        ...

    def poke(self) -> None:
        """Sample now instead of at the end of the period."""
        ...

    def stop(self) -> None:
        """Stop sampling. Returns at once even when a call hangs."""
        ...


Done = Callable[[Exception | None], None]
"""Told in the journal's thread how a write ended: None, OSError (full disk) or JournalBrokenError."""


class Journal(Protocol):
    """The facts of a deck, in order, durable."""

    def load(self) -> Iterator[Fact]:
        """All facts from the beginning, in order; damaged ones and what follows them are left out."""
        ...

    def submit(self, facts: Sequence[Fact], *, durable: bool, done: Done | None = None, keep: bool = False) -> None:
        """Write facts after all earlier ones; *done* is called when they are on disk, in the order of the calls.

        Facts that are not *durable* may be on disk up to 100 ms later. A full disk fails with OSError and nothing of
        this call is written; with *keep* the facts stay first in line and are written when there is space.
        """
        ...

    def close(self) -> None:
        """Write what is pending and close. Idempotent."""
        ...


class JournalBrokenError(Exception):
    """The journal cannot be trusted any more in this process (fsync failed): no starts until a restart."""
