"""The state of a deck: one object, owned by the loop, changed only by `apply` and by the opening of gates.

Indexes are kept up to date with every move, so that no event costs a scan of all tasks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from .acts import Acts
from .devices import Gpu
from .events import AttemptEnded, AttemptRunning, AttemptStarting, AttemptSubmitted, Terms
from .gates import STANDING_OF_GATE, Gate, GateState, Standing
from .learned import Entry, Learned
from .marks import Marks
from .output_history import OutputHistory
from .phases import (
    ACTIVE,
    FINAL,
    LEGAL,
    Attempt,
    Backoff,
    Blocked,
    Ended,
    IllegalMoveError,
    Phase,
    Queued,
    Starting,
)
from .queue import Key, Queue, Shape, length_class
from .spec import DeckSettings, TaskSpec
from .task import STANDING_OF_PHASE, Run
from .task import Success as Success
from .task import Task as Task


@dataclass(slots=True, eq=False)
class Past:
    ended: dict[str, tuple[Ended, ...]] = field(default_factory=dict[str, tuple[Ended, ...]])
    """By task, oldest first. Of a task that runs on although it is gone the deck itself knows."""
    _starts: dict[tuple[str, int], AttemptStarting] = field(default_factory=dict[tuple[str, int], AttemptStarting])

    _jobs: dict[tuple[str, int], tuple[str, tuple[str, ...]]] = field(
        default_factory=dict[tuple[str, int], tuple[str, tuple[str, ...]]]
    )
    """Job and nodes that a cluster gave to those that have not ended."""

    def started(self, fact: AttemptStarting) -> None:
        self._starts[fact.task, fact.attempt] = fact

    def submitted(self, fact: AttemptSubmitted) -> None:
        self._jobs[fact.task, fact.attempt] = fact.job, ()

    def running(self, fact: AttemptRunning) -> None:
        if fact.job:
            self._jobs[fact.task, fact.attempt] = fact.job, fact.nodes

    def over(self, fact: AttemptEnded, run: int) -> int:
        """How many GPUs it had; of a cluster's nobody knows any more."""
        start = self._starts.pop((fact.task, fact.attempt), None)
        job, nodes = self._jobs.pop((fact.task, fact.attempt), ("", ()))
        if start is not None:
            ended = Ended(
                fact.attempt, fact.outcome, start.gpus, fact.duration_s, fact.peak_mib, fact.wall, run, start.rung,
                start.card_mib, nodes, job, start.timeout_rung,
            )  # fmt: skip
            self.ended[fact.task] = (*self.ended.get(fact.task, ()), ended)
        return 0 if start is None else len(start.gpus)


DeadlineKind = Literal["timeout", "warn", "linger", "backoff", "minute", "plan", "warned"]


class Deadline(NamedTuple):
    at: float
    kind: DeadlineKind
    task: int
    """Index; -1 for `plan`."""
    token: str
    """The attempt that it belongs to; a deadline of an attempt that is over is ignored."""


@dataclass(slots=True, eq=False)
class Deck:
    settings: DeckSettings
    cpu_slots: int
    cores: int
    tasks: list[Task] = field(default_factory=list[Task])
    by_name: dict[str, Task] = field(default_factory=dict[str, Task])
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    gates: list[Gate] = field(default_factory=list[Gate])
    gpus: dict[str, Gpu] = field(default_factory=dict[str, Gpu])
    """By UUID, in order of preference."""
    outside: dict[str, Gpu] = field(default_factory=dict[str, Gpu])
    """The box's other GPUs, by UUID: what began on one before the file was edited may still hold it."""
    on_cpu: bool = False
    """No GPU to use: GPU tasks run on CPU slots."""
    on_cpu_slots: int = 0
    """How many slots of GPU tasks at once then."""
    cluster: int = 0
    """How many jobs a cluster is given at once; each task is one, whatever it asks for. 0: tasks run on this box."""
    run: Run = field(default_factory=Run)
    queue: Queue = field(default_factory=Queue)
    learned: Learned = field(default_factory=Learned)
    counts: Counter[type[Phase]] = field(default_factory=Counter[type[Phase]])
    """Selected tasks by phase."""
    active: dict[str, Task] = field(default_factory=dict[str, Task])
    """By token, while slots are held."""
    arrivals: deque[int] = field(default_factory=deque[int])
    """Queued tasks of which it is still to be decided whether they are done already."""
    dirty: dict[Gate, None] = field(default_factory=dict[Gate, None])
    """Gates whose change of state has still to reach their dependents."""
    deadlines: list[Deadline] = field(default_factory=list[Deadline])
    successes: dict[str, Success] = field(default_factory=dict[str, Success])
    output_history: OutputHistory = field(default_factory=OutputHistory)
    """Attempts of all tasks, also such as have left the file, by their outputs."""
    by_fingerprint: dict[str, Success] = field(default_factory=dict[str, Success])
    """The newest success under each fingerprint by a name that is gone or now means other work."""
    shared_outputs: set[str] = field(default_factory=set[str])
    """Outputs that not only one task has."""
    known: set[str] = field(default_factory=set[str])
    """Names that the journal has attempts of."""
    shards: dict[str, int] = field(default_factory=dict[str, int])
    held: set[int] = field(default_factory=set[int])
    """Tasks that the user holds."""
    taken_up: dict[int, Phase] = field(default_factory=dict[int, Phase])
    """How finished tasks stood that the newest run was to look at again."""
    unasked: set[int] = field(default_factory=set[int])
    """Tasks that this run, which was begun by hand, does not take up."""
    past: Past = field(default_factory=Past)
    marks: Marks = field(default_factory=Marks)
    """Finished tasks that are changed or stale."""
    urgent: dict[Gate, None] = field(default_factory=dict[Gate, None])
    """Gates whose dependents have become more or less urgent, which has still to reach their members."""
    acts: Acts = field(default_factory=Acts)
    """What users asked for, to be taken back."""
    terms: list[Terms] = field(default_factory=list[Terms])
    """Terms of attempts that the journal has, in the order of their numbers, from 1."""
    terms_numbers: dict[Terms, int] = field(default_factory=dict[Terms, int])
    mixed: bool = False
    """Not all priorities are equal."""
    cpu_used: int = 0
    cpu_tasks: int = 0
    """CPU slots held by tasks with gpus = 0."""
    cores_used: int = 0
    memory_mib: int | None = None
    """The host's MemAvailable at the last sample."""
    memory_at: float = -1e9
    memory_most_mib: int = 0
    """The largest sample so far."""
    memory_total_mib: int = 0
    """What the host has; 0: not known."""
    paused: str = ""
    """Why nothing starts: the user's pause, a shutdown; empty: things start."""
    stopping: bool = False
    """The engine is on its way out."""
    unwritable: str = ""
    """Why the journal cannot be written; empty while it can."""
    no_starts_until: float = -1e9
    now: float = 0.0
    """Seconds of this boot, at the last step."""
    hourly: bool = False
    """A task has hours of its own."""
    wall_ahead: float = 0.0
    """Seconds since the epoch less those of this boot, at the last step; 0: there was none."""
    disk_free_mib: int | None = None
    """On the disk with the least room; None: nobody has looked."""
    gpu_s: float = 0.0
    """What all attempts that have ended took: seconds by the GPUs that each had."""
    opens_at: float = -1e9
    """When to look again whether the hours of `begin` and `between` have come."""
    quiet: bool = False
    """Whoever started this engine has something to say before the first start."""
    unopened: bool = True
    """All tasks are to be looked at: a run has begun, or tasks are asked for that it had left alone."""
    checking: set[int] = field(default_factory=set[int])
    """Tasks whose outputs are being looked at."""
    proof: int = 0
    """Grows whenever results may have been spoilt unseen: a task that needs one starts once it was looked at since."""
    proving: set[int] = field(default_factory=set[int])
    """Finished tasks whose results are being looked at, for those that need them."""
    held_for_proof: list[int] = field(default_factory=list[int])
    """Queued tasks that wait for that."""
    held_for_work: dict[int, None] = field(default_factory=dict[int, None])
    """Queued tasks whose work is being done under another name: they arrive again when that has ended."""
    looked_until: float = -1e9
    """Nothing starts before this while outputs are looked at, so that tasks start in their order."""
    plan_due: bool = True
    gathering: tuple[str, ...] = ()
    """GPUs that are kept from other decks, as far as they are to be had, for a task that waits for several."""
    wanted_next: tuple[str, ...] = ()
    """GPUs that the user's other decks leave to this one as they come free."""
    next_tasks: list[int] = field(default_factory=list[int])
    """Tasks that go before other decks."""
    heads: dict[int, float] = field(default_factory=dict[int, float])
    """Since when something has been held for a queued task, which may be let go for a more urgent one meanwhile."""
    moved: set[int] = field(default_factory=set[int])
    """Tasks whose phase has changed since whoever shows them looked last."""
    newly_blocked: list[int] = field(default_factory=list[int])
    """Tasks that have become blocked since whoever reports it looked last."""
    retold: dict[Gate, None] = field(default_factory=dict[Gate, None])
    """Gates that stay shut, and of which more or less has failed since whoever shows their dependents looked last."""
    closed: dict[Gate, None] = field(default_factory=dict[Gate, None])
    """Gates that are not open."""
    replaying: bool = False
    begun: dict[str, TaskSpec] = field(default_factory=dict[str, TaskSpec])
    """By token, what attempts were started as where the file says otherwise by now."""
    beside: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By token, of all such attempts and of those whose task has left the file, tasks that did the same work beside it:
    few, so that who asks whether work is being done under another name looks at no other attempt."""
    cpu_surplus: int = 0
    """CPU slots held beyond what the deck has since it was given fewer."""

    def become(self, other: Deck) -> None:
        """Take over everything that *other* is, which is of no use afterwards: who holds this deck sees that one."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))

    @property
    def leaving(self) -> dict[str, Gpu]:
        """By UUID, GPUs that the deck no longer has and that attempts still hold."""
        return {uuid: gpu for uuid, gpu in self.outside.items() if gpu.holders}

    @property
    def present_gpus(self) -> dict[str, Gpu]:
        """By UUID, the deck's GPUs and those that leave it."""
        return self.gpus | self.leaving

    @property
    def lasting(self) -> list[tuple[Task, Attempt]]:
        """The attempts that hold slots, each with its task."""
        return [(task, attempt) for task in self.active.values() if (attempt := task.attempt()) is not None]

    def count_surplus(self) -> None:
        """The deck may have been given fewer slots than its attempts hold: those end, and are not replaced."""
        for gpu in (*self.gpus.values(), *self.outside.values()):
            gpu.surplus = max(0, len(gpu.holders) - gpu.slots) if isinstance(gpu.slots, int) else 0
        self._count_cpu_surplus()

    def _count_cpu_surplus(self) -> None:
        self.cpu_surplus = max(0, (self.cpu_used if self.cluster else self.cpu_tasks) - self.cpu_slots)

    def add(self, spec: TaskSpec, *, selected: bool) -> Task:
        """Give the deck one more task."""
        entry = self.entries.get(spec.entry)
        if entry is None:
            entry = self.entries[spec.entry] = Entry(spec.entry)
        task = Task(len(self.tasks), spec, entry, selected, priority=spec.priority, effective=spec.priority)
        self.tasks.append(task)
        self.by_name[spec.name] = task
        return task

    # -- moves --------------------------------------------------------------------------------------------------------

    def move(self, task: Task, phase: Phase) -> None:
        """The only place where a task's phase changes: legality, counters, indexes and gates follow."""
        old = task.phase
        if type(phase) not in LEGAL[type(old)]:
            raise IllegalMoveError(f"{task.name}: {type(old).__name__} -> {type(phase).__name__}")
        task.phase = phase
        self.moved.add(task.index)
        if task.selected:
            self.counts[type(old)] -= 1
            self.counts[type(phase)] += 1
        if isinstance(old, Queued):
            self.queue.drop(task.index)
            self.heads.pop(task.index, None)
            self.held_for_work.pop(task.index, None)
            if not isinstance(phase, Starting):
                # Whoever stood first in line may have kept others from starting.
                self.plan_due = True
        if isinstance(phase, Queued):
            self.arrivals.append(task.index)
        elif isinstance(phase, Blocked) and task.selected and not self.run.ended:
            self.newly_blocked.append(task.index)
        is_active = isinstance(phase, ACTIVE)
        if isinstance(phase, Starting):
            self._take(task, phase.attempt)
        elif not is_active and isinstance(old, ACTIVE):
            self._give(task, old.attempt)
        standing = STANDING_OF_PHASE.get(type(phase), Standing.PENDING)
        if not task.selected and not is_active and standing is not Standing.GOOD:
            # It will not run again in this run: nobody may wait for it.
            standing = Standing.FAILED
        self._stand(task, standing)
        if not self.replaying and (isinstance(old, FINAL) or isinstance(phase, FINAL)):
            self.marks.follow(task)

    def _take(self, task: Task, attempt: Attempt) -> None:
        need = (attempt.spec or task.spec).resources
        self.active[attempt.token] = task
        task.entry.running += 1
        if not attempt.where:
            self.cores_used += need.cpus or 0
        self.cpu_used += attempt.cpu_slots
        if need.gpus == 0:
            self.cpu_tasks += attempt.cpu_slots
        for gpu in self.gpus_of(attempt):
            gpu.take(attempt, exclusive=need.exclusive or attempt.alone, at=attempt.at)

    def _give(self, task: Task, attempt: Attempt) -> None:
        need = (attempt.spec or task.spec).resources
        del self.active[attempt.token]
        task.entry.running -= 1
        if not attempt.where:
            self.cores_used -= need.cpus or 0
        self.cpu_used -= attempt.cpu_slots
        if need.gpus == 0:
            self.cpu_tasks -= attempt.cpu_slots
        if self.cpu_surplus:
            self._count_cpu_surplus()
        # It ended with the box, whose clock has begun anew since: every reading is of after that.
        at = -1e9 if attempt.rebooted else attempt.gone_at or attempt.exited_at or attempt.at
        for gpu in self.gpus_of(attempt):
            gpu.release(attempt.token, at=at)
        self.plan_due = True
        self.arrivals.extend(self.held_for_work)
        self.held_for_work.clear()

    def gpus_of(self, attempt: Attempt) -> list[Gpu]:
        """The GPUs that an attempt has, as far as the box has them."""
        found = (self.gpus.get(uuid) or self.outside.get(uuid) for uuid in attempt.gpus)
        return [gpu for gpu in found if gpu is not None]

    def _stand(self, task: Task, standing: Standing) -> None:
        old = task.standing
        if standing is old:
            return
        task.standing = standing
        for gate in task.feeds:
            if gate.count(old, standing):
                self.gate_changed(gate)
            elif gate.state is GateState.SHUT:
                self.retold[gate] = None

    def gate_changed(self, gate: Gate) -> None:
        """A gate's state differs from before: tell the next round's gate now, and its dependents in a while."""
        if gate.state is GateState.OPEN:
            self.closed.pop(gate, None)
        else:
            self.closed[gate] = None
        self.dirty[gate] = None
        chained = gate.feeds_gate
        if chained is not None:
            before, chained.behind = chained.behind, STANDING_OF_GATE[gate.state]
            if chained.count(before, chained.behind):
                self.gate_changed(chained)

    @property
    def in_motion(self) -> bool:
        """Without anything from outside, tasks will still come to be queued, or end."""
        looks = self.checking or self.proving
        if self.counts[Backoff] or self.arrivals or self.dirty or looks:
            return True
        return self.unopened and not self.run.ended

    # -- what decisions ask -------------------------------------------------------------------------------------------

    @property
    def is_part(self) -> bool:
        """Tasks of the file are left out of what runs."""
        if self.counts.total() == len(self.tasks):  # a run begun by hand costs no look at all of them
            return False
        return any(not task.selected and not task.gone for task in self.tasks)

    def gates_say(self, task: Task) -> GateState:
        state = GateState.OPEN
        for gate in task.gates:
            if gate.state is GateState.SHUT:
                return GateState.SHUT
            if gate.state is GateState.WAIT:
                state = GateState.WAIT
        return state

    def expected_s(self, task: Task) -> float | None:
        """How long an attempt of this task takes at most, as far as that is known: as it is expected to, else its
        timeout."""
        expected = self.forecast_s(task)
        return task.begun_policy.timeout_s if expected is None else expected

    def forecast_s(self, task: Task) -> float | None:
        """How long an attempt of this task is expected to take: as the progress of the one that runs says, else as
        `typical_s`."""
        attempt = task.attempt()
        if attempt is not None and attempt.ends_at is not None:
            return attempt.ends_at - attempt.at
        return self.typical_s(task)

    def typical_s(self, task: Task) -> float | None:
        """The median of what its attempts took, else of its entry's; those tell nothing of one with a retry's values,
        which may have ten times the steps."""
        own = self.learned.seconds(task.spec.fingerprint)
        return own if own is not None or task.spec.given else task.entry.typical_s

    def smallest_mib(self, gpus: Iterable[str]) -> int | None:
        """Memory of the smallest of these cards, as far as that is known."""
        sizes = (self.gpus[uuid].total_mib for uuid in gpus if uuid in self.gpus)
        return min((size for size in sizes if size is not None), default=None)

    def models(self, gpus: Iterable[str]) -> tuple[str, ...]:
        """The different models among these cards; one or none where they are alike."""
        return tuple(dict.fromkeys(self.gpus[uuid].model for uuid in gpus if uuid in self.gpus))

    def prove(self, task: Task) -> None:
        """Its result is what it has just left, or has been looked at. What the journal tells proves nothing of now."""
        if not self.replaying:
            task.proof = self.proof

    def enqueue(self, task: Task) -> None:
        """Give a task that will run its place in the queue."""
        need = task.begun_spec.resources
        large = task.entry.is_large
        expected = self.learned.seconds(task.spec.fingerprint) if large else self.expected_s(task)
        by_entry = large or need.max_parallel is not None or need.gpu_memory_mib == "auto"
        entry = task.spec.entry if by_entry else ""
        outputs = task.spec.outputs if self.shares_outputs(task) else ()
        shape = Shape(need, task.avoid, length_class(expected), entry, task.again.not_on, outputs)
        self.queue.put(task.index, shape, self.key_of(task))
        self.plan_due = True

    def shares_outputs(self, task: Task) -> bool:
        """Another task, or an attempt that was begun as something else, has one of its outputs, too."""
        return bool(task.spec.outputs) and not self.shared_outputs.isdisjoint(task.spec.outputs)

    def share_outputs(self, outputs: Iterable[str]) -> None:
        """Something else than the file's tasks has these outputs, too."""
        self.shared_outputs.update(outputs)
        for index in [index for index in self.queue if self.shares_outputs(self.tasks[index])]:
            self.enqueue(self.tasks[index])

    def key_of(self, task: Task) -> Key:
        """A task's place in the order of the queue."""
        length = 0.0
        if self.settings.order == "longest":
            own = self.learned.seconds(task.spec.fingerprint)
            longest = own if own is not None else task.entry.longest_s
            length = -longest * self.share_of_card(task) if longest is not None else float("-inf")
        return Key(-task.effective, length, task.spec.position)

    def share_of_card(self, task: Task) -> float:
        """How much of a card a task takes, where it says or has been seen how much memory it needs; else all of it."""
        asked = task.begun_spec.resources.gpu_memory_mib
        if asked == "auto":
            learned = self.learned.memory(task.spec.fingerprint, task.entry)
            asked = None if learned is None else learned.mib
        largest = max((gpu.total_mib or 0 for gpu in self.gpus.values()), default=0)
        return min(1.0, asked / largest) if asked and largest else 1.0

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def wake(self, at: float, kind: DeadlineKind, task: int = -1, token: str = "") -> None:
        heappush(self.deadlines, Deadline(at, kind, task, token))

    def next_deadline(self) -> float | None:
        """When the core wants the next `Tick`; None: only when something happens."""
        return self.deadlines[0].at if self.deadlines else None

    def due(self, now: float) -> list[Deadline]:
        found: list[Deadline] = []
        while self.deadlines and self.deadlines[0].at <= now:
            found.append(heappop(self.deadlines))
        return found
