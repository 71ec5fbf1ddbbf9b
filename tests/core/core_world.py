"""A deck, its core and a world to run in, moved by hand. Checks what must always hold after every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from core_outside import Outside
from core_outside import Proc as Proc
from core_specs import CARD_MIB as CARD_MIB
from core_specs import cards as cards
from core_specs import deck_file as deck_file
from core_specs import said
from core_specs import spec as spec

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.apply import replay
from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck, Task
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.effects import CheckDone, Effect, Examine, Gather, Launch, Stop, Warn
from gpudeck.engine.core.events import Fate, Unproven
from gpudeck.engine.core.phases import NAMES, Queued, Unknown
from gpudeck.engine.core.readiness import outputs_doubt
from gpudeck.engine.core.runs import has_new
from gpudeck.engine.core.spec import DeckFile, DeckSettings, TaskSpec
from gpudeck.engine.core.step import Core
from gpudeck.engine.core.turn import Here, Step
from tests.rigs.invariants import violations

WALL = 1_700_000_000.0
MANY = 300
"""Steps within which everything that can settle must have settled."""


@dataclass(slots=True, repr=False)
class World(Outside):
    """A deck, its core and what it runs in, moved by hand."""

    core: Core = field(init=False)
    acts: list[str] = field(default_factory=list)
    """What users asked for, oldest first."""
    numbers: Iterator[int] = field(default_factory=count)

    def __repr__(self) -> str:
        lines = [f"{task.name}: {said(task)} {said(task.resources)} {said(task.policy)}" for task in self.file.tasks]
        box = [(gpu.index, gpu.slots, gpu.total_mib) for gpu in self.make_gpus()]
        return "\n".join(
            ["World", str(said(self.file.settings)), f"{box} cores {self.cores}", str(self.file.selected), *lines]
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How hypothesis shows a failing deck."""
        printer.text("World" if cycle else str(self))

    def __post_init__(self) -> None:
        self.deck = self._fresh()
        self.core = self._engine()

    def _engine(self) -> Core:
        core = Core(self.deck)
        core.here = Here(self.boot_id, "box")
        return core

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

    def step(self, *inputs: i.Input) -> Step:
        step = self.core.step([*self._take_inbox(), *inputs], at=self.now, wall=self.wall)
        left = (self.deck.dirty, self.deck.urgent, () if self.deck.run.ended else self.deck.arrivals)
        assert not any(left), "a step does all that follows from it"
        self._work(step)
        return step

    def give(self, *inputs: i.Input) -> None:
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

    def _take_inbox(self) -> list[i.Input]:
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
                self.launch(effect)
            case Stop():
                self.stop(effect)
            case Examine():
                proc = self.procs[effect.token]
                assert proc.exit is not None
                self.inbox.append(i.Examined(effect.token, proc.outcome or self.judge(proc)))
            case CheckDone():
                self.unanswered += effect.tasks
                if not self.slow_checks:
                    self.answer_checks()
            case Gather():
                self.gather(effect)
            case Warn():
                assert effect.token in self.procs

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

    def answer_checks(self) -> None:
        for name in self.unanswered:
            task = self.deck.by_name.get(name)
            if task is None:  # the file no longer has it
                continue
            doubt = outputs_doubt(self.deck, task, (), self.wall, attempted=name in self.attempted)
            there = name in self.outputs
            self.inbox.append(i.DoneChecked(name, there and not doubt, spoilt=there and bool(doubt)))
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

    def sample(self) -> None:
        self.give(i.DevicesSampled(self.readings(), self.memory_mib, dict(self.elsewhere)))

    def verb(
        self, verb: str, *tasks: str, value: int = 0, by: str = "user", downstream: bool = False, **again: object
    ) -> str:
        """*again*: how a retry runs: fresh, env, not_on. Returns what it is to be taken back by."""
        for name in tasks if verb in ("cancel", "kill", "retry") else ():
            if isinstance(self.task(name).phase, Unknown):
                # Who settles such an attempt has made sure that it is gone.
                for proc in self.live():
                    if proc.task == name:
                        proc.leader = proc.tree = False
        options = e.RetryOptions(**again)  # pyright: ignore[reportArgumentType]
        act = f"act {next(self.numbers)}"
        self.acts.append(act)
        self.give(i.Verb(verb, tasks, value, by, options, downstream, act))  # pyright: ignore[reportArgumentType]
        return act

    def undo(self, act: str) -> None:
        """Take back what was asked for."""
        found = self.deck.acts.get(act)
        self.give(i.Verb("undo", tuple(found.tasks) if found is not None else (), act=act))

    # -- a new engine -------------------------------------------------------------------------------------------------

    def restart(
        self, *, unproven: Callable[[Proc], bool] = lambda _: False, reboot: bool = False, file: DeckFile | None = None,
        changed: bool = False, go_on: bool = True, takes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Kill the engine and restore the deck from its facts. *unproven*: what recovery cannot tell of. *takes*:
        what an unfinished run takes up from now on."""
        self.file = file or self.file
        self.deck = self._fresh()
        self.inbox.clear()
        self.unanswered.clear()
        self.kept = ()
        replay(self.deck, self.facts)
        if reboot:
            self._reboot()
        self.core = self._engine()
        self._check()
        fates: dict[str, Fate] = {token: self._recover(token, unproven) for token in self.deck.active}
        if go_on and not self.deck.run.ended:
            step = self.core.go_on(
                fates, changed=changed, at=self.now, wall=self.wall, boot_id=self.boot_id, takes=takes
            )
            self._work(step)
        self.settle()

    def reopen(self, **more: Any) -> None:
        """Kill the engine and open the deck with one for a screen, which repeats nothing."""
        self.restart(takes=("new",), **more)
        if self.deck.run.ended and has_new(self.deck):
            self.begin(("new",))

    def _reboot(self) -> None:
        for proc in self.live():
            proc.leader = proc.tree = False
            proc.exit = i.LeaderExited(proc.token, None, 5.0)
        self.past += self.now
        self.now = 5.0
        self.boot_id += "'"

    def _recover(self, token: str, unproven: Callable[[Proc], bool]) -> Fate:
        proc = self.procs.get(token)
        if proc is None:
            self.inbox.append(i.TreeGone(token, self.now, never_ran=True))
            return "never ran"
        if unproven(proc):
            return Unproven()
        if proc.leader:
            return "adopted"
        if proc.tree:
            assert proc.exit is not None
            self.inbox.append(proc.exit)
            return "adopted" if proc.exit.code is None else "ended"
        assert proc.exit is not None
        self.inbox += [proc.exit, i.TreeGone(token, self.now)]
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


def done_world(*tasks: object, **more: object) -> World:
    """A world in which every task has succeeded once."""
    found = world(*tasks, **more)  # pyright: ignore[reportArgumentType]
    while not found.deck.run.ended:
        for proc in found.live():
            found.end(proc.task, settle=False)
        found.settle()
    return found
