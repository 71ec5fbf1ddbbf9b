"""A world for the core: fake processes, GPUs, outputs and a clock, moved by hand. Checks promises as it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gpudeck.engine.core import events as e
from gpudeck.engine.core.build import build
from gpudeck.engine.core.check import violations
from gpudeck.engine.core.deck import Deck, Task
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.effects import Again, CheckDone, Effect, Examine, Launch, Stop, Warn
from gpudeck.engine.core.phases import NAMES, Queued, Unknown
from gpudeck.engine.core.restore import replay
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Policy, Resources, TaskSpec, Work
from gpudeck.engine.core.step import Core
from gpudeck.engine.core.turn import Step

CARD_MIB = 24_000
WALL = 1_700_000_000.0
MANY = 300
"""Steps within which everything that can settle must have settled."""


def spec(name: str, *, entry: str = "", position: int = -1, **more: object) -> TaskSpec:
    """A task; keys of Resources and Policy may be given directly."""
    resources = {key: more.pop(key) for key in list(more) if key in Resources.__dataclass_fields__}
    policy = {key: more.pop(key) for key in list(more) if key in Policy.__dataclass_fields__}
    more.setdefault("fingerprint", f"fp-{name}")
    return TaskSpec(
        name=name,
        entry=entry or name.rstrip("0123456789"),
        position=position,
        work=Work("true"),
        resources=Resources(**resources),  # pyright: ignore[reportArgumentType]
        policy=Policy(**policy),  # pyright: ignore[reportArgumentType]
        **more,  # pyright: ignore[reportArgumentType]
    )


def deck_file(
    tasks: Iterable[TaskSpec], settings: DeckSettings | None = None, selected: Iterable[str] | None = None
) -> DeckFile:
    placed = tuple(replace(task, position=place) for place, task in enumerate(tasks))
    chosen = None if selected is None else frozenset(selected)
    return DeckFile("/tasks.toml", "tasks", settings or DeckSettings(), placed, selected=chosen)


def cards(count: int, *, slots: int | str = 1, total_mib: int | None = CARD_MIB, **more: object) -> list[Gpu]:
    return [
        Gpu(f"GPU-{index}", index, index, slots=slots, total_mib=total_mib, **more)  # pyright: ignore[reportArgumentType]
        for index in range(count)
    ]


def said(spec: Any) -> dict[str, object]:
    """What a spec says beyond its defaults."""
    hidden = ("name", "entry", "work", "fingerprint", "resources", "policy")
    given = {item.name: getattr(spec, item.name) for item in fields(spec) if item.name not in hidden}
    return {key: value for key, value in given.items() if value != type(spec).__dataclass_fields__[key].default}


@dataclass(slots=True)
class Proc:
    """A process tree of an attempt."""

    token: str
    task: str
    gpus: tuple[str, ...]
    exclusive: bool
    leader: bool = True
    tree: bool = True
    exit: e.LeaderExited | None = None
    asked: bool = False
    kill_at: float | None = None
    reported_leader: bool = False
    reported_tree: bool = False
    outcome: e.Outcome | None = None
    used_mib: int = 0
    pid_hidden: bool = False


@dataclass(slots=True, repr=False)
class World:
    file: DeckFile
    make_gpus: Callable[[], list[Gpu]]
    cores: int = 16
    on_cpu: bool = False
    now: float = 1000.0
    facts: list[e.Fact] = field(default_factory=list)
    inbox: list[e.Input] = field(default_factory=list)
    procs: dict[str, Proc] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    launched: list[Launch] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)
    strangers: dict[str, tuple[e.Process, ...]] = field(default_factory=dict)
    gone_gpus: set[str] = field(default_factory=set)
    memory_mib: int = 64_000
    refuse: int = 0
    slow_checks: bool = False
    unanswered: list[str] = field(default_factory=list)
    checks: bool = True
    portion: int = 400
    boot_id: str = "boot"
    past: float = 0.0
    """Seconds of earlier boots."""
    deck: Deck = field(init=False)
    core: Core = field(init=False)

    def __repr__(self) -> str:
        lines = [f"{task.name}: {said(task)} {said(task.resources)} {said(task.policy)}" for task in self.file.tasks]
        box = [(gpu.index, gpu.slots, gpu.total_mib) for gpu in self.make_gpus()]
        return "\n".join(["World", str(said(self.file.settings)), f"{box} cores {self.cores}", str(self.file.selected), *lines])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a failing deck."""
        printer.text("World" if cycle else str(self))

    def __post_init__(self) -> None:
        self.deck = self._fresh()
        self.core = Core(self.deck, portion=self.portion)

    def _fresh(self) -> Deck:
        return build(self.file, gpus=self.make_gpus(), cores=self.cores, on_cpu=self.on_cpu)

    @property
    def wall(self) -> float:
        return WALL + self.past + self.now

    # -- the engine's part --------------------------------------------------------------------------------------------

    def begin(self, takes: Sequence[str] = ("failed", "changed", "stale"), *, settle: bool = True) -> None:
        number = self.deck.run.number + 1
        fact = e.RunStarted(number, f"seed{number}", self.now, self.wall, self.boot_id, takes=tuple(takes))
        self._work(self.core.begin(fact))
        if settle:
            self.settle()

    def step(self, *inputs: e.Input) -> Step:
        step = self.core.step([*self._take_inbox(), *inputs], at=self.now, wall=self.wall)
        self._work(step)
        return step

    def give(self, *inputs: e.Input) -> None:
        """Inputs, then everything that follows from them at this moment."""
        self.inbox += inputs
        self.settle()

    def settle(self) -> None:
        for _ in range(MANY):
            due = self.deck.next_deadline()
            if not self.inbox and not (due is not None and due <= self.now):
                self.step()
                if not self.inbox:
                    return
            self.step()
        raise AssertionError("the core never comes to rest")

    def _check(self) -> None:
        found = violations(self.deck)
        assert not found, found

    def _take_inbox(self) -> list[e.Input]:
        inputs, self.inbox = self.inbox, []
        return inputs

    def _work(self, step: Step) -> None:
        self.facts += step.facts
        self._check()
        for effect in step.effects:
            self._effect(effect)

    def _effect(self, effect: Effect) -> None:
        self.effects.append(effect)
        match effect:
            case Launch():
                self._launch(effect)
            case Stop():
                self._stop(effect)
            case Examine():
                proc = self.procs[effect.token]
                assert proc.exit is not None
                self.inbox.append(e.Examined(effect.token, proc.outcome or self._judge(proc)))
            case CheckDone():
                self.unanswered += effect.tasks
                if not self.slow_checks:
                    self.answer_checks()
            case Again():
                self.inbox.append(e.Tick())
            case Warn():
                assert effect.token in self.procs

    def _judge(self, proc: Proc) -> e.Outcome:
        assert proc.exit is not None
        code = proc.exit.code
        if code == 0:
            return e.Outcome("ok", 0)
        return e.Outcome("exit", code)

    # -- the world's part ---------------------------------------------------------------------------------------------

    def _launch(self, effect: Launch) -> None:
        assert effect.token not in self.tokens, f"token of {effect.task} is started twice"
        self.tokens.add(effect.token)
        task = self.deck.by_name[effect.task]
        assert any(isinstance(fact, e.AttemptStarting) and fact.token == effect.token for fact in reversed(self.facts))
        if self.refuse:
            self.refuse -= 1
            self.inbox.append(e.SpawnRefused(effect.token, "fork refused"))
            return
        proc = Proc(effect.token, effect.task, effect.gpus, task.spec.resources.exclusive)
        self.launched.append(effect)
        self.procs[effect.token] = proc
        self.attempted.add(effect.task)
        self._check_slots(proc)
        self.inbox.append(e.Spawned(effect.token, 1000 + len(self.procs), len(self.procs)))

    def _check_slots(self, new: Proc) -> None:
        for uuid in new.gpus:
            on_it = [proc for proc in self.procs.values() if proc.tree and uuid in proc.gpus]
            slots = self.deck.gpus[uuid].slots
            assert slots == "auto" or len(on_it) <= slots, f"{uuid} has {len(on_it)} trees"
            assert len(on_it) == 1 or not any(proc.exclusive for proc in on_it), f"{uuid} is shared with an exclusive"

    def _stop(self, effect: Stop) -> None:
        proc = self.procs.get(effect.token)
        asked = any(isinstance(fact, e.StopRequested) and self._token(fact) == effect.token for fact in self.facts)
        assert asked or (proc is not None and not proc.leader), "a signal without a fact that asked for it"
        if proc is None or not proc.tree:
            return
        proc.asked = True
        kill_at = self.now + effect.grace_s
        proc.kill_at = kill_at if proc.kill_at is None else min(proc.kill_at, kill_at)
        if proc.kill_at <= self.now:
            self.kill(proc)

    def _token(self, fact: e.StopRequested) -> str:
        for other in reversed(self.facts):
            if isinstance(other, e.AttemptStarting) and (other.task, other.attempt) == (fact.task, fact.attempt):
                return other.token
        return ""

    def kill(self, proc: Proc) -> None:
        if proc.leader:
            self.leader_exits(proc, 137, signal=9)
        self.tree_goes(proc)

    def leader_exits(
        self, proc: Proc, code: int | None, *, signal: int | None = None, spawn_error: str = "",
        outcome: e.Outcome | None = None,
    ) -> None:  # fmt: skip
        assert proc.leader
        proc.leader = False
        proc.outcome = outcome
        proc.exit = e.LeaderExited(proc.token, code, self.now, signal, spawn_error)
        if code == 0 and (outcome is None or outcome.ok):
            self.outputs.add(proc.task)
        self.inbox.append(proc.exit)
        proc.reported_leader = True

    def tree_goes(self, proc: Proc) -> None:
        assert proc.tree and not proc.leader
        proc.tree = False
        self.inbox.append(e.TreeGone(proc.token, self.now))
        proc.reported_tree = True

    def end(
        self, task: str, code: int | None = 0, *, outcome: e.Outcome | None = None, spawn_error: str = "",
        settle: bool = True,
    ) -> None:  # fmt: skip
        """The attempt of a task ends, its whole tree with it."""
        proc = self.proc(task)
        if proc.leader:
            self.leader_exits(proc, code, spawn_error=spawn_error, outcome=outcome)
        self.tree_goes(proc)
        if settle:
            self.settle()

    def oom(self, task: str) -> None:
        self.end(task, 1, outcome=e.Outcome("oom", 1))

    def proc(self, task: str) -> Proc:
        found = [proc for proc in self.procs.values() if proc.task == task and proc.tree]
        assert len(found) == 1, f"{task} has {len(found)} process trees"
        return found[0]

    def live(self) -> list[Proc]:
        return [proc for proc in self.procs.values() if proc.tree]

    def answer_checks(self) -> None:
        for name in self.unanswered:
            self.inbox.append(e.DoneChecked(name, name in self.outputs, name in self.attempted))
        self.unanswered.clear()

    def advance(self, seconds: float) -> None:
        """Let time pass; deadlines and kills happen on their way."""
        target = self.now + seconds
        for _ in range(MANY):
            due = self.deck.next_deadline()
            kills = [proc.kill_at for proc in self.live() if proc.kill_at is not None]
            stops = [at for at in (due, *kills) if at is not None and at <= target]
            self.now = max(self.now, min(stops)) if stops else target
            for proc in self.live():
                if proc.kill_at is not None and proc.kill_at <= self.now:
                    self.kill(proc)
            self.settle()
            if not stops:
                return
        raise AssertionError("deadlines without end")

    def readings(self) -> tuple[e.GpuReading, ...]:
        return tuple(self._reading(uuid) for uuid in self.deck.gpus)

    def _reading(self, uuid: str) -> e.GpuReading:
        if uuid in self.gone_gpus:
            return e.GpuReading(uuid, self.now, lost="GPU is lost")
        ours = [e.Process(index, proc.used_mib, proc.token) for index, proc in enumerate(self.live(), 5000)
                if uuid in proc.gpus]  # fmt: skip
        processes = (*ours, *self.strangers.get(uuid, ()))
        used = sum(process.used_mib or 0 for process in processes)
        total = self.deck.gpus[uuid].total_mib
        return e.GpuReading(uuid, self.now, total, used, processes=processes)

    def sample(self) -> None:
        self.give(e.DevicesSampled(self.readings(), self.memory_mib))

    def stranger(self, uuid: str, used_mib: int = 10_000, user: str = "alice") -> None:
        self.strangers[uuid] = (e.Process(4711, used_mib, user=user),)

    def verb(self, verb: str, *tasks: str, value: int = 0) -> None:
        for name in tasks if verb in ("cancel", "kill") else ():
            if isinstance(self.task(name).phase, Unknown):
                # Who cancels such an attempt has made sure that it is gone.
                for proc in self.live():
                    if proc.task == name:
                        proc.leader = proc.tree = False
        self.give(e.Verb(verb, tasks, value))  # pyright: ignore[reportArgumentType]

    # -- a new engine -------------------------------------------------------------------------------------------------

    def restart(
        self, *, verdict: Callable[[Proc], str] = lambda _: "", reboot: bool = False, file: DeckFile | None = None,
        changed: bool = False, go_on: bool = True,
    ) -> None:  # fmt: skip
        """Kill the engine and restore the deck from its facts. *verdict*: what recovery says, "" the truth."""
        self.file = file or self.file
        self.deck = self._fresh()
        self.inbox.clear()
        self.unanswered.clear()
        replay(self.deck, self.facts)
        if reboot:
            self._reboot()
        self.core = Core(self.deck, portion=self.portion)
        self._check()
        verdicts = {token: self._recover(token, verdict) for token in self.deck.active}
        if go_on and not self.deck.run.ended:
            self._work(self.core.go_on(verdicts, changed=changed, at=self.now, wall=self.wall, boot_id=self.boot_id))
        self.settle()

    def _reboot(self) -> None:
        for proc in self.live():
            proc.leader = proc.tree = False
            proc.exit = e.LeaderExited(proc.token, None, 5.0)
        self.past += self.now
        self.now = 5.0
        self.boot_id += "'"

    def _recover(self, token: str, verdict: Callable[[Proc], str]) -> str:
        proc = self.procs.get(token)
        if proc is None:
            self.inbox.append(e.TreeGone(token, self.now, never_ran=True))
            return "never ran"
        said = verdict(proc)
        if said:
            return said
        if proc.tree:
            if not proc.leader and proc.exit is not None:
                self.inbox.append(proc.exit)
            return "adopted"
        assert proc.exit is not None
        self.inbox += [proc.exit, e.TreeGone(token, self.now)]
        return "lost" if proc.exit.code is None else "ended"

    # -- looking ------------------------------------------------------------------------------------------------------

    def task(self, name: str) -> Task:
        return self.deck.by_name[name]

    def phase(self, name: str) -> str:
        return NAMES[type(self.task(name).phase)]

    def phases(self) -> dict[str, str]:
        return {task.name: self.phase(task.name) for task in self.deck.tasks}

    def running(self) -> dict[str, tuple[int, ...]]:
        """Indices of the GPUs of each task that holds slots."""
        found: dict[str, tuple[int, ...]] = {}
        for task in self.deck.active.values():
            attempt = task.attempt()
            assert attempt is not None
            found[task.name] = tuple(self.deck.gpus[uuid].index for uuid in attempt.gpus)
        return dict(sorted(found.items()))

    def queued(self) -> list[str]:
        return [task.name for task in self.deck.tasks if isinstance(task.phase, Queued)]

    def of(self, kind: type[e.Fact]) -> list[e.Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


def world(
    *tasks: TaskSpec, gpus: int = 1, slots: int | str = 1, total_mib: int | None = CARD_MIB,
    settings: DeckSettings | None = None, cores: int = 16, on_cpu: bool = False,
    selected: Iterable[str] | None = None, begin: bool = True, links: dict[int, dict[int, int]] | None = None,
    simulated: bool = False,
) -> World:  # fmt: skip
    """A world with a deck that has begun its first run and come to rest."""
    settings = settings or DeckSettings()
    if slots == "auto":
        settings = replace(settings, slots_per_gpu="auto")

    def make() -> list[Gpu]:
        made = cards(gpus, slots=slots, total_mib=total_mib, simulated=simulated)
        for index, near in (links or {}).items():
            made[index].links = {f"GPU-{other}": level for other, level in near.items()}
        return made

    found = World(deck_file(tasks, settings, selected), make, cores=cores, on_cpu=on_cpu)
    if begin:
        found.begin()
    return found

