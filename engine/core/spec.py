"""What a task file says, after validation and expansion: one `TaskSpec` per task, one `DeckSettings` per deck.

Frozen and shared: tasks of one entry point to the same `Resources` and `Policy` where their values are equal, so that
a deck of 100,000 tasks stays small.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from typing import Literal

from .hours import Clock, Hours
from .selector import is_glob


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern means, in their order; `*` also matches `/`."""
    if not is_glob(pattern):
        return [name for name in names if name == pattern]
    matches = re.compile(translate(pattern)).match
    return [name for name in names if matches(name)]


Command = str | tuple[str, ...]
"""A tuple is executed as it is; a string runs in `bash -c`."""

Barrier = Literal["succeeded", "ended"]
Leftovers = Literal["stop", "leave", "wait"]
StopScope = Literal["group", "leader"]
Launch = Literal["command", "torchrun", "accelerate", "srun", "auto"]
RetryOn = Literal["fail", "signal", "oom", "timeout", "lost", "watch", "preempted", "node_fail"]


@dataclass(frozen=True, slots=True)
class Resources:
    """What one attempt of a task takes from the box."""

    gpus: int | Literal["all"] = 1
    """GPUs taken together, one slot on each; 0 is a CPU task."""
    gpu_ids: tuple[str, ...] = ()
    """Only these GPUs: indices ("3") or UUIDs ("GPU-5f2a…"); empty: any of the deck's."""
    exclusive: bool = False
    gpu_memory_mib: int | Literal["auto"] | None = None
    """Free memory it needs on each of its GPUs; None: nothing said."""
    cpus: int | None = None
    """Cores, only when the file says so; admission counts these against the box's cores."""
    memory_mib: int | None = None
    max_parallel: int | None = None
    begin: Clock | None = None
    """Not before; a time of day is the first one since the run was started."""
    between: Hours | None = None
    """Not outside; once it runs it goes on."""
    """Tasks of this entry at once."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How an attempt is ended, judged and repeated. All times in seconds."""

    retries: int = 0
    retry_on: frozenset[RetryOn] = frozenset({"fail", "oom", "timeout", "lost", "preempted", "node_fail"})
    backoff_s: float = 10.0
    timeout_s: float | None = None
    grace_s: float = 30.0
    stop_signal: str = "TERM"
    stop_scope: StopScope = "group"
    warn_signal: str | None = None
    warn_before_s: float = 300.0
    success_codes: frozenset[int] = frozenset({0})
    leftovers: Leftovers = "stop"
    linger_s: float = 10.0
    """How long processes that outlive their leader are left alone before the stop sequence."""
    merge_stderr: bool = False

    def for_one_begun_under(self, begun: Policy) -> Policy:
        """These rules for an attempt that began under others: what its process was set up for stays as it was."""
        return replace(self, **{name: getattr(begun, name) for name in SET_AT_START})


SET_AT_START = frozenset({"success_codes", "leftovers", "linger_s", "merge_stderr"})
"""Of a policy, what an edit changes from the next attempt on; all else holds at once."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an attempt executes. Placeholders known only at its start ({attempt}, {gpu_ids}, …) are still in it."""

    command: Command
    env: tuple[tuple[str, str | None], ...] = ()
    """Added to the caller's environment, in order; None unsets."""


@dataclass(frozen=True, slots=True)
class Resume:
    """`resume_command`: runs instead of the command when an earlier attempt left something to go on from."""

    command: Command
    when: tuple[str, ...]
    """Globs; one of them must match a file. Empty: no condition."""
    rungs: tuple[Command, ...] = ()
    """The same with the variables of each rung of on_oom; empty: no rung changes it."""

    def on_rung(self, rung: int) -> Command:
        """*rung*: 0 for the command as written, k for rung k of on_oom."""
        return self.rungs[rung - 1] if 0 < rung <= len(self.rungs) else self.command


@dataclass(frozen=True, slots=True)
class CardWork:
    """What a [[gpu_profile]] makes of a task on cards with enough memory, or a rung of on_timeout."""

    profile: str
    """Its memory as written: "80GiB"; empty: a rung."""
    min_mib: int
    work: Work
    ladder: tuple[Work, ...] = ()
    resume: Resume | None = None
    steps: tuple[CardWork, ...] = ()

    def means(self, total_mib: int) -> bool:
        return total_mib > 0 and total_mib >= self.min_mib * SOLD_AS


@dataclass(frozen=True, slots=True)
class Asks:
    """What a rung of on_oom or on_timeout asks for otherwise; None: what the task asks for."""

    gpus: int | None = None
    gpu_memory_mib: int | None = None
    memory_mib: int | None = None
    timeout_s: float | None = None
    stop_scope: StopScope | None = None
    """Where so many GPUs mean another one."""
    slurm: tuple[tuple[str, object], ...] = ()
    """Over the task's own."""

    def beside(self, late: Asks) -> Asks:
        """These, of on_oom, with those of on_timeout, which has the last word on time and on nothing else."""
        slurm = {**dict(late.slurm), **dict(self.slurm)}
        if late.timeout_s is not None:
            slurm.pop("time", None)
        slurm |= {key: value for key, value in late.slurm if key == "time"}
        return Asks(
            self.gpus or late.gpus,
            self.gpu_memory_mib or late.gpu_memory_mib,
            self.memory_mib or late.memory_mib,
            late.timeout_s or self.timeout_s,
            self.stop_scope or late.stop_scope,
            tuple(slurm.items()),
        )


SAME = Asks()

SOLD_AS = 0.9
"""A card has up to a tenth less memory than it is sold with: error correction takes a sixteenth, the driver some."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number to read from a task: from its output by *regex* (first group), else *key* of a JSON *file*."""

    name: str
    regex: str = ""
    file: str = ""
    """Absolute."""
    key: str = ""
    best: Literal["max", "min", "last"] = "last"


@dataclass(frozen=True, slots=True)
class Progress:
    """How to read the progress of a task from its output."""

    regex: str
    """Groups are the step and the total, or the percentage alone, or the step alone."""
    total: int | None = None
    """Steps in all, for a regex that finds the step alone."""


IDLE_BELOW = 2
"""Percent of use below which a GPU is idle, unless a task says otherwise."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Signs of a stuck or diverged attempt. Times in seconds."""

    silent_s: float | None = None
    idle_gpu_s: float | None = None
    idle_below: int = IDLE_BELOW
    """A GPU of which less than so many percent are used is idle."""
    log_size_mib: int | None = None
    """Both streams together."""
    pattern: str = ""
    """Regular expression, both streams."""
    action: Literal["notify", "fail", "succeed"] = "notify"

    @property
    def judges(self) -> bool:
        """A line of the output tells how an attempt ended, whatever its exit code."""
        return bool(self.pattern) and self.action != "notify"


FEWEST_PEERS = 2
"""Without so many nothing is judged, whatever the file says."""


@dataclass(frozen=True, slots=True)
class Prune:
    """When a task is stopped because it is lost among its peers, the other tasks of its entry."""

    metric: str
    """Its name and which of its values: "val_loss:min"."""
    rule: Literal["median", "asha", "none"] = "median"
    """none: takes a default back."""
    at: tuple[float, ...] = (0.25, 0.5, 0.75)
    """Shares of its progress at which it is judged, rising, each between 0 and 1."""
    keep: float | None = None
    """Of median: how many peers must have come as far; of asha: the share that goes on. None: `KEEP`."""

    @property
    def name(self) -> str:
        return self.metric.rpartition(":")[0]

    @property
    def is_max(self) -> bool:
        return self.metric.endswith(":max")

    @property
    def kept(self) -> float:
        return KEEP[self.rule] if self.keep is None else self.keep


KEEP = {"median": 4, "asha": 0.5, "none": 0}
"""What `keep` is where nothing is said."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What few tasks say; shared between equal ones."""

    launch: Launch = "command"
    nproc: int | None = None
    nodes: int = 1
    progress: Progress | None = None
    """None: the usual forms."""
    metrics: tuple[Metric, ...] = ()
    watch: Watch | None = None
    prune: Prune | None = None
    slurm: tuple[tuple[str, object], ...] = ()
    """The task's own slurm table, over the deck's."""
    image: str = ""
    """Of the container that it runs in; empty: in none."""
    mounts: tuple[str, ...] = ()
    """What of the box its container sees beside its own folders: an absolute path, or HOST:INSIDE or HOST:INSIDE:ro."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task after expansion. Immutable; an attempt keeps the spec that it began with."""

    name: str
    entry: str
    """The entry's name as written ("train-{noise}-s{seed}"): tasks of one entry share learned durations and memory."""
    position: int
    """Place in file order, from 0."""
    work: Work
    fingerprint: str
    """Identity of the work (hex): same fingerprint, same result expected."""
    resources: Resources = Resources()
    policy: Policy = Policy()
    cwd: str = "."
    """Absolute."""
    python: str = ""
    """Absolute path of the interpreter for {python}; its folder goes first on PATH. Empty: the one running gpudeck."""
    python_env: tuple[tuple[str, str], ...] = ()
    """VIRTUAL_ENV or CONDA_PREFIX that goes with `python`."""
    env_required: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    """Matrix values (and shard) as text, for selectors and tables."""
    given: tuple[tuple[str, str], ...] = ()
    """Values that `retry --set` has put in the place of the file's: `params` has those of the matrix, too."""
    tags: tuple[str, ...] = ()
    round: int = 0
    group: str = ""
    barrier: Barrier = "succeeded"
    needs: tuple[str, ...] = ()
    """Names or globs that must succeed first."""
    after: tuple[str, ...] = ()
    """Names or globs that must have ended first, however."""
    priority: int = 0
    next: bool = False
    """Before all that waits: in its deck, and in the other decks of its user on this box."""
    outputs: tuple[str, ...] = ()
    """Absolute paths or globs that exit code 0 must leave behind, non-empty."""
    ladder: tuple[Work, ...] = ()
    """on_oom: the work after the 1st, 2nd, … out-of-memory end."""
    on_oom: tuple[Asks, ...] = ()
    """What these ask for; empty: what the task does."""
    on_timeout: tuple[Asks, ...] = ()
    """What the attempt after the 1st, 2nd, … end by timeout asks for."""
    steps: tuple[CardWork, ...] = ()
    """What these execute; empty: what the task does."""
    resume: Resume | None = None
    line: int = 0
    """Line of its [[task]] in the task file, from 1; 0 unknown."""
    extras: Extras = Extras()
    cards: tuple[CardWork, ...] = ()
    """By [[gpu_profile]], the largest cards first; empty: the same everywhere."""

    @property
    def values(self) -> Mapping[str, str]:
        """Params, and what a retry has put in the place of the file's [vars]."""
        return {**self.params, **dict(self.given)} if self.given else self.params

    def card(self, total_mib: int) -> CardWork | None:
        """What it is on a card of this size (0: not known); None: as written."""
        return next((card for card in self.cards if card.means(total_mib)), None)

    def on_card(self, total_mib: int) -> TaskSpec:
        """As it is executed on a card of this size, the smallest of those that it is given."""
        card = self.card(total_mib)
        if card is None:
            return self
        return replace(self, work=card.work, ladder=card.ladder, resume=card.resume, steps=card.steps)

    def on_step(self, timeout_rung: int) -> TaskSpec | CardWork:
        """Whose work, ladder and resume_command hold there; 0: as written, k: rung k of on_timeout."""
        return self.steps[timeout_rung - 1] if 0 < timeout_rung <= len(self.steps) else self

    def on_rung(self, rung: int, timeout_rung: int = 0) -> Work:
        """*rung*: 0 for the work as written, k for rung k of on_oom."""
        step = self.on_step(timeout_rung)
        return step.ladder[rung - 1] if 0 < rung <= len(step.ladder) else step.work

    def asking(self, rung: int, timeout_rung: int) -> TaskSpec:
        """With what it asks for there, the same when asked again; what it executes stays. Beyond the last: as there."""
        oom, late = _rung(self.on_oom, rung), _rung(self.on_timeout, timeout_rung)
        if oom is SAME and late is SAME:
            return self
        asks = oom.beside(late)
        own, policy = self.resources, self.policy
        slurm = dict(self.extras.slurm)
        # Of the task they would go over what the rung says.
        for key, value in (("mem", asks.memory_mib), ("time", asks.timeout_s)):
            if value is not None:
                slurm.pop(key, None)
        return replace(
            self,
            resources=replace(
                own,
                gpus=asks.gpus or own.gpus,
                gpu_memory_mib=asks.gpu_memory_mib or own.gpu_memory_mib,
                memory_mib=asks.memory_mib or own.memory_mib,
            ),
            policy=replace(
                policy,
                timeout_s=asks.timeout_s or policy.timeout_s,
                stop_scope=asks.stop_scope or policy.stop_scope,
            ),
            extras=replace(self.extras, slurm=tuple({**slurm, **dict(asks.slurm)}.items())),
        )


def _rung(rungs: tuple[Asks, ...], number: int) -> Asks:
    return rungs[min(number, len(rungs)) - 1] if rungs and number > 0 else SAME


def alike(one: TaskSpec, other: TaskSpec) -> bool:
    """Whether two specs differ in nothing but their place in the file."""
    return one == other or one == replace(other, position=one.position, line=one.line)


@dataclass(frozen=True, slots=True)
class Halt:
    """When failures stop the deck, in GNU parallel's words."""

    when: Literal["soon", "now"]
    fail: int | None = None
    """Number of settled failures."""
    fail_percent: float | None = None
    """Percent of the settled tasks, counted from three failures on."""
    early: int | None = None
    """Number of tasks in a row that failed soon after their start: each would."""

    def __str__(self) -> str:
        if self.early is not None:
            return f"{self.when},early={self.early}"
        return f"{self.when},fail={self.fail}" if self.fail is not None else f"{self.when},fail={self.fail_percent:g}%"


@dataclass(frozen=True, slots=True)
class Budget:
    """The [budget] table: when a deck starts nothing more; what runs goes on."""

    gpu_hours: float | None = None
    """Time of attempts by the GPUs that each has, since the deck began."""
    until: Clock | None = None

    def __str__(self) -> str:
        hours = [] if self.gpu_hours is None else [f"gpu_hours = {self.gpu_hours:g}"]
        return ", ".join([*hours, *([] if self.until is None else [f"until = {self.until}"])]) or "none"


NOTIFY_ON = ("failure", "retry", "round", "end", "halt", "gpu", "watch", "stop")
"""What a user can be told of away from the terminal."""


@dataclass(frozen=True, slots=True, repr=False)
class Notify:
    """The [notify] table. As text it shows no URL and no command: both may hold keys. Times in seconds."""

    urls: tuple[str, ...] = ()
    """As written, with their {env.NAME}."""
    command: Command | None = None
    on: frozenset[str] = frozenset(NOTIFY_ON) - {"retry"}
    every_s: float = 30.0
    """At most one message in this time."""
    timeout_s: float = 30.0

    def __bool__(self) -> bool:
        return bool(self.urls or self.command)

    def __repr__(self) -> str:
        found = [f"{len(self.urls)} URL{'s' * (len(self.urls) != 1)}"] if self.urls else []
        found += ["a command"] if self.command else []
        return f"{' and '.join(found)} on {', '.join(sorted(self.on))}" if found else "nobody"


@dataclass(frozen=True, slots=True)
class DeckSettings:
    """The [deck] table, validated. Sizes in MiB, times in seconds."""

    name: str = "deck"
    gpus: Literal["all", "none"] | tuple[str, ...] | int = "all"
    """"all", "none", ids in order of preference, or a number for `sim:N`."""
    slots_per_gpu: int | Literal["auto"] | Mapping[str, int] = 1
    """One number, "auto", or by GPU id."""
    cpu_slots: int | None = None
    no_gpu: Literal["auto", "cpu", "fail"] = "auto"
    log_dir: str = "logs"
    """Absolute."""
    state_dir: str = ".gpudeck"
    """Absolute."""
    skip_existing: bool = True
    rerun_stale: bool = False
    order: Literal["file", "longest"] = "file"
    halt: Halt | None = None
    begin: Clock | None = None
    """Nothing starts before; a time of day is the first one since the run was started."""
    between: Hours | None = None
    """Nothing starts outside; what runs goes on."""
    disk_mib: int | None = None
    """Nothing starts where less is free; None: that does not matter."""
    foreign: Literal["avoid", "fit", "ignore"] = "avoid"
    foreign_memory_mib: int = 1024
    foreign_quiet_s: float = 60.0
    keep_free: int = 0
    gpu_quarantine: int = 3
    gang_patience_s: float = 900.0
    reload: Literal["ask", "auto", "off"] = "ask"
    backend: Literal["local", "slurm"] = "local"
    max_submitted: int = 200
    """Jobs at once that a cluster is given."""
    snapshot: bool = False
    """Tasks run a copy of their repository as it is when they are asked for."""
    container: Literal["auto", "docker", "podman", "apptainer"] = "auto"
    """What runs tasks with an image; "auto": the first that is there."""
    notify: Notify = Notify()
    budget: Budget = Budget()

    @property
    def simulated(self) -> bool:
        """Its GPUs are: what they read is exact at any moment."""
        return isinstance(self.gpus, int)


@dataclass(frozen=True, slots=True)
class OwnChecks:
    """The [doctor] table: what `gpudeck doctor` checks beside its own."""

    run: tuple[str, ...] = ()
    """Shell commands that must succeed; {python} and {log_dir} are still in them."""
    imports: tuple[str, ...] = ()
    """Modules that tasks can do without."""


@dataclass(frozen=True, slots=True)
class DeckFile:
    """A task file, read, validated and expanded."""

    path: str
    """Absolute."""
    stem: str
    """Name of the state folder: the file's stem, `stem@name` with a profile or --name."""
    settings: DeckSettings
    tasks: tuple[TaskSpec, ...]
    selected: frozenset[str] | None = None
    """Names that --only, --exclude and --limit leave in; None: all."""
    warnings: tuple[str, ...] = ()
    shown: str = ""
    """The path as the user gave it, for messages."""
    fixed_shards: Mapping[str, int] = field(default_factory=dict[str, int])
    """By entry, what `shards = "gpus"` was resolved to; without those for which the GPUs are not known yet."""
    vars: Mapping[str, str] = field(default_factory=dict[str, str])
    """[vars] after profile and --set, as text."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where a [deck] key was said, to begin a message with: "tasks.toml:3: [deck]" or "--gpus"."""
    digest: str = ""
    """Of the file's bytes."""
    text: str = field(default="", repr=False)
    """All of the file; empty where these tasks are only a part of what it says."""
    own_checks: OwnChecks = OwnChecks()
    unfit: Mapping[str, str] = field(default_factory=dict[str, str])
    """By task, why it goes without the values that `retry --set` has given."""
    later: tuple[str, ...] = ()
    """A line for each thing that the file asks for and this version cannot do yet."""

    @property
    def chosen(self) -> Sequence[TaskSpec]:
        """The tasks that are left in, in file order."""
        return self.tasks if self.selected is None else [spec for spec in self.tasks if spec.name in self.selected]
