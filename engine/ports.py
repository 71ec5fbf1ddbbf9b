"""What the engine needs from the world. The docstrings are the contract; tests/contract runs them on fake and real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:  # who only needs to name a GPU is spared what the loop is told, and all that it records
    from .core.events import Fact, Fate
    from .core.inputs import Input
    from .core.output_history import OutputAttempt
    from .core.readings import GpuReading
    from .core.spec import Leftovers, StopScope, TaskSpec

Sink = Callable[["Input"], None]
"""Takes an input into the loop. Called on the loop's thread unless a port says otherwise."""


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment, on the clock of deadlines and on the one of people."""

    boot_s: float
    """Seconds of CLOCK_BOOTTIME: deadlines."""
    wall_s: float
    """Seconds since the epoch: for people."""


class Clock(Protocol):
    def now(self) -> Instant: ...


class Alarm(Protocol):
    """Rings once at a moment, also one that passes while the box sleeps: then as soon as it is awake."""

    def set(self, at: float | None) -> None:
        """Ring at this time of CLOCK_BOOTTIME, in seconds, and no more at the one set before; None: not at all."""
        ...

    def close(self) -> None:
        """Never ring again. Idempotent."""
        ...


class SpawnRefusedError(Exception):
    """No process came to be and none will: fork refused (EAGAIN, ENOMEM), no space, a GPU taken. One line."""

    def __init__(self, why: str, claimed: tuple[tuple[str, str], ...] = ()) -> None:
        """*claimed*: UUIDs of GPUs that another deck has, and who has them."""
        super().__init__(why)
        self.claimed = claimed


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What a cluster needs to know of an attempt beside its `StartOrder`."""

    task: str
    attempt: int
    gpus: int
    """On each node, as are cpus and memory."""
    nodes: int
    cpus: int | None
    memory_mib: int | None
    limit_s: float | None
    """After which the cluster ends it; None: the partition's."""
    grace_s: float
    linger_s: float
    """How long what outlives the command is left alone before it is stopped."""
    stop_signal: str
    stop_scope: StopScope
    warn_signal: str | None
    warn_before_s: float
    tasks_per_node: int
    """0: no srun around the command."""
    options: Mapping[str, object]
    """The merged [slurm] table as validated."""
    exclude: tuple[str, ...]
    """Nodes that failed under this task."""
    exclusive: bool
    script: str
    """Path at which the script is kept."""
    own_env: frozenset[str]
    """Names of variables that the task itself sets."""
    ranks: int = 1
    """Processes on each node, whoever starts them: they share its cores."""
    record: bytes = b""
    """What attempt-N.json, beside the script, says before there is a job: without a journal, it is found by that."""


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
    job: JobOrder | None = None
    """None: it runs on this box."""
    container: str = ""
    """The program whose daemon runs its processes, which are not below ours; empty: they are."""


@dataclass(frozen=True, slots=True)
class Known:
    """An attempt of an earlier engine, as the journal knows it."""

    token: str
    pid: int
    """0: its start was never recorded."""
    start_ticks: int
    leftovers: Leftovers = "stop"
    claims: tuple[str, ...] = ()
    """UUIDs of its GPUs."""
    task: str = ""
    job: str = ""
    """The cluster's id of it; empty: none was recorded."""
    container: str = ""
    """As in `StartOrder`."""


_T = TypeVar("_T")

LOOK_TIMEOUT_S = 60.0
"""Logs and outputs on a file server that answers nothing for so long are not waited for."""
OthersAt = Callable[["TaskSpec"], "Sequence[OutputAttempt]"]
"""Other decks' attempts at a task's outputs. Reads files."""
LOOK_AGAIN_S = 5.0
"""When what did not answer is looked at again."""


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

    def start(self, order: StartOrder) -> tuple[int, int] | None:
        """Start an attempt: (pid, start_ticks) of its session leader, or None where it is on its way to a cluster: the
        sink gets `Submitted` and, once it begins, `Spawned`, unless it comes to its end before.

        From here on the sink gets exactly one `LeaderExited` and, after it, exactly one `TreeGone` for this token; or
        `TreeGone(never_ran=True)` alone where its log or record cannot be written.
        Its GPUs are claimed for this deck first, until `TreeGone`. Raises SpawnRefusedError when no process came to be.
        The same token is never started twice.
        """
        ...

    def recover(self, attempts: Sequence[Known]) -> Mapping[str, Fate]:
        """Find out what became of attempts of an earlier engine, by record file, pid and start time.

        Returns by token "adopted" (runs; the sink gets `Spawned` where its start was never recorded, and its end),
        "ended" (the sink gets `LeaderExited` and `TreeGone`
        with what the record tells), "never ran" (the sink gets `TreeGone(never_ran=True)`), "lost" (proven absent
        without a code; the sink gets `LeaderExited(code=None)` and `TreeGone`) or `Unproven` (the sink gets nothing).
        """
        ...

    def stop(self, token: str, *, signal: int, scope: StopScope, grace_s: float) -> None:
        """Signal the scope, then the rest of the tree, KILL after *grace_s*. Gone is not an error; again restarts it
        only when it is sooner."""
        ...

    def warn(self, token: str, signal: int) -> int:
        """Send *signal* to the members that catch it. Returns how many did."""
        ...

    def gather(self, gpus: Sequence[str], task: str, first: Sequence[str] = ()) -> None:
        """Keep these GPUs from other decks as they come free, while *task* waits for several; () lets go. Of *first*
        the user's other decks leave what comes free to this one."""
        ...

    def members(self) -> Mapping[int, str]:
        """Pid -> token for every process known to belong to an attempt. One that has ended while all are gone through
        has no token: ask with `get`."""
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
    node: str = ""
    """The node of our allocation that it is on; "": this box."""
    links: Mapping[str, int] | None = None
    """Closeness to other GPUs by UUID, higher is nearer (NVLink > same switch > same host bridge > system); None: the
    topology is not known."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What only people look at, of one GPU at one moment; scheduling does without. None: not known."""

    at: float
    """CLOCK_BOOTTIME."""
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    """What keeps its clocks down, the gravest first: "hw thermal", "power", …; (): nothing does."""
    fan_percent: int | None = None
    slowdown_c: int | None = None
    power_limit_w: float | None = None
    pci_bus_id: str = ""
    health: tuple[str, ...] = ()
    """What its memory's error correction tells of, one line each."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a field, here or in the reading, is None: "not supported", "no permission" or NVML's words."""


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

    def telemetry(self, uuid: str) -> Telemetry | None:
        """The newest look at what only people want to know. Blocks on nothing; None where there is none yet.

        It is read along with the samples, but only for as long as somebody goes on asking: a deck that nobody watches
        costs the driver nothing more.
        """
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
