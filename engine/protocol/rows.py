"""What a picture of the deck is made of: its tasks, its GPUs, its head. For people: indices, not UUIDs; wall clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from .counts import Counts

State = Literal[
    "waiting", "queued", "starting", "running", "stopping", "closing", "backoff", "succeeded", "cached", "failed",
    "cancelled", "pruned", "blocked", "unknown",
]  # fmt: skip


class TaskRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One task as it stands. Times are seconds since the epoch unless the name says otherwise."""

    index: int
    """Place in the file; rows of one engine are told apart by it."""
    name: str
    entry: str
    state: State
    held: bool = False
    changed: bool = False
    """Finished, and the file has been changed since."""
    stale: bool = False
    """What it needs has succeeded again after it."""
    left_out: bool = False
    """Not selected in this run."""
    gone: bool = False
    """No longer in the task file."""
    round: int = 0
    group: str = ""
    priority: int = 0
    needs_gpus: int = 0
    """GPUs that it takes; 0: a CPU task."""
    gpus: tuple[int, ...] = ()
    """Indices of the GPUs of its present or last attempt."""
    on_cpu: bool = False
    """It takes GPUs, and that attempt runs or ran on the CPU, because the box had none."""
    attempt: int = 0
    """Number of the newest attempt; 0: none yet."""
    done_by: tuple[str, int] | None = None
    """The other name under which its work was done, and the number of that attempt."""
    rung: int = 0
    """Of on_oom, what the newest attempt runs or ran on; 0: the command as written."""
    rungs: int = 0
    """How many rungs on_oom has."""
    timeout_rung: int = 0
    """Of on_timeout, what the newest attempt runs or ran on; 0: as written."""
    timeout_rungs: int = 0
    """How many rungs on_timeout has."""
    pid: int = 0
    """Session leader of the attempt that lasts."""
    job: str = ""
    """Of a Slurm deck, the job of its present or last attempt: "1234", or "1234_7" in an array; one in `starting` that
    has a job is pending there."""
    nodes: tuple[str, ...] = ()
    """Nodes of the cluster that its present or last attempt runs or ran on."""
    pending: str = ""
    """Why the cluster has not begun it: "begins ~14:05, Priority"."""
    started: float | None = None
    duration_s: float | None = None
    """Of the newest attempt that has ended."""
    ended: float | None = None
    """When that attempt ended."""
    retries_used: int = 0
    retries: int = 0
    """How many it has, spent ones included."""
    merged: bool = False
    """Its stderr goes into attempt-N.log too: there is no attempt-N.err."""
    expected_s: float | None = None
    retry_at: float | None = None
    """In backoff: when it is tried again."""
    reason: str = ""
    """Why its newest attempt ended as it did: "exit 1: ValueError: …"; of a blocked task what blocks it."""
    kind: str = ""
    """The same in one word, for selectors: exit, oom, timeout, …; "ok"."""
    exit_code: int | None = None
    params: Mapping[str, str] = {}
    given: Mapping[str, str] = {}
    """Values that `retry --set` has put in the place of the file's."""
    tags: tuple[str, ...] = ()
    progress: float | None = None
    """0 to 1."""
    eta_s: float | None = None
    metrics: Mapping[str, float | None] = {}
    """As they are now, or were last; null: nan or infinite."""
    best: Mapping[str, float | None] = {}
    """Of those of which the task file says `best = "max"` or `"min"`."""
    curve: tuple[float, ...] = ()
    """What the first of the metrics has been since its attempt began, at most 16 points; the last is the last value."""

    def score(self, metric: str) -> float:
        """Its best value where the task file says which that is, else its last; nan: that is no number."""
        value = self.best.get(metric, self.metrics.get(metric))
        return math.nan if value is None else value


class GpuProcess(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    pid: int
    """0: there is no process, the use of a simulated GPU is made up."""
    used_mib: int | None = None
    user: str = ""
    task: str = ""
    """The task of this deck that it belongs to."""


class GpuMemory(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Whose a GPU's used memory is, in MiB."""

    deck_mib: int = 0
    """This deck's attempts'."""
    mine_mib: int = 0
    """Other processes of the same user."""
    others_mib: int = 0
    """Other users', and of processes whose owner cannot be seen."""
    unexplained_mib: int = 0
    """What no process that the driver lists has."""


class GpuRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One GPU of the deck. None: not known, which is not zero."""

    index: int
    uuid: str
    name: str = ""
    tasks: tuple[str, ...] = ()
    slots: int = 1
    """0: as many as memory allows."""
    slot_tasks: tuple[str, ...] = ()
    """Which task is on each slot, "" where none is; a task keeps its place."""
    util_percent: int | None = None
    used_mib: int | None = None
    total_mib: int | None = None
    memory: GpuMemory | None = None
    temperature_c: int | None = None
    slowdown_c: int | None = None
    """The temperature at which the card slows itself down."""
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    """What keeps the clocks down, the gravest first: "hw thermal", "thermal", "power brake", "power", "hw slowdown",
    "sync boost", "set clocks", "display clocks"; empty: nothing."""
    fan_percent: int | None = None
    pci_bus_id: str = ""
    """As lspci writes it: "0000:3b:00.0"."""
    health: tuple[str, ...] = ()
    """What the memory's error correction tells of: "2 uncorrected ECC errors since the driver was loaded"."""
    missing: Mapping[str, str] = {}
    """Why fields are None, by field: "not supported", "no permission" or the driver's words."""
    simulated: bool = False
    mig: bool = False
    """A MIG instance."""
    leaving: bool = False
    """The file no longer gives it to the deck: it is shown until what runs on it has ended."""
    lost: str = ""
    """Why it does not answer, in the driver's words: "GPU is lost"."""
    stale_since: float | None = None
    """The driver has told nothing since then: these are its last words, seconds since the epoch."""
    note: str = ""
    """Why nothing starts on it, if so: "alice, pid 4711, 31.0 GiB", "drained", "lost (…)"; or who has come beside a
    task of ours: "alice joined GPU 3 at 02:14, pid 4711, 31.0 GiB"."""
    note_kind: str = ""
    """What `note` is about: lost, unread, drained, claimed, quarantined, foreign, quiet; joined; leaving."""
    mark: str = ""
    """drain or take, as the user said."""
    processes: tuple[GpuProcess, ...] = ()


class ClusterRow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One partition of the cluster. None: not known, which is not zero."""

    partition: str
    default: bool = False
    """Where jobs go that name none."""
    state: str = ""
    """up, down, drain or inact, as Slurm says."""
    nodes_idle: int | None = None
    nodes_up: int | None = None
    """Those that answer and take jobs, free or not."""
    nodes_total: int | None = None
    gpus_free: int | None = None
    gpus_total: int | None = None
    gpu_types: tuple[str, ...] = ()
    """Free and all GPUs of each type, where they have types: "a100 3/8"."""
    cpus_free: int | None = None
    cpus_total: int | None = None
    running: int = 0
    """My jobs that run there, of this deck or not."""
    pending: int = 0
    """My jobs that wait there."""


class Cluster(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The cluster that a Slurm deck's tasks run on, as it was told last."""

    partitions: tuple[ClusterRow, ...] = ()
    running: int = 0
    """My jobs, of this deck or not."""
    pending: int = 0
    at: float = 0.0
    """When it was told, seconds since the epoch; 0: never yet."""
    problem: str = ""
    """Why it tells nothing now, in its own words; what stands here is how it was."""


class DeckHead(msgspec.Struct, frozen=True, kw_only=True):
    """What concerns the deck as a whole."""

    deck: str
    file: str
    log_dir: str
    run: int
    ended: bool
    """The run is over: nothing starts until something is asked for."""
    counts: Counts
    slots: int
    """GPU tasks that run at once; of a deck without any, CPU tasks. Of a Slurm deck: jobs that it submits at once."""
    former_log_dirs: tuple[str, ...] = ()
    """Where it had its logs before, the newest first: those of attempts that began then are there."""
    used_slots: int = 0
    """How many of them are taken; a task on four GPUs takes four."""
    started: float = 0.0
    """When the run began, seconds since the epoch; 0: there is none yet."""
    paused: str = ""
    halted: str = ""
    unwritable: str = ""
    """Why the journal cannot be written; nothing starts."""
    rounds: tuple[str, ...] = ()
    """A line for each group whose next round is closed: "round 1 closed by 1 failed and 2 blocked: train-3, …"."""
    shut_rounds: tuple[str, ...] = ()
    """Those of `rounds` that open only once what failed is mended."""
    waiting_why: tuple[str, ...] = ()
    """What keeps most tasks from starting, and how many more there are: "5 blocked: needs a, …", "3 more blocked"."""
    waits: tuple[str, ...] = ()
    """`rounds` and `waiting_why` in one, each thing once; without jobs that are pending, whose rows tell why."""
    eta_s: float | None = None
    """Seconds until everything that can run has run; at least so many where tasks are `unmeasured`. None: not known, or
    the deck is paused or halted."""
    unmeasured: int = 0
    """Tasks that have still to run and whose length nobody knows."""
    barred: str = ""
    """Which rule of the file lets nothing start: hours, disk or budget."""
    spent: bool = False
    """It is the budget: nothing starts before the file is edited."""
    budget: str = ""
    """What is used of it: "12.3 of 100 GPU hours"."""
    held: int = 0
    changed: int = 0
    stale: int = 0
    file_plan: str = ""
    """The task file has changed: one line that says what `apply` would do."""
    file_problem: str = ""
    """The task file has changed and cannot be used: why, one line. The deck goes on as it was."""
    simulated: bool = False
    on_cpu: bool = False
    """GPU tasks run on the CPU: there is no GPU."""
    backend: Literal["local", "slurm"] = "local"
    """Where its tasks run."""
