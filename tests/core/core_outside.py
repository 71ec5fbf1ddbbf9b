"""What a deck runs in: fake processes on fake GPUs. Checks that each starts once and is stopped for a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.effects import Effect, Gather, Launch, Stop
from gpudeck.engine.core.phases import Queued, Starting
from gpudeck.engine.core.spec import DeckFile


@dataclass(slots=True)
class Proc:
    """A process tree of an attempt."""

    token: str
    task: str
    gpus: tuple[str, ...]
    exclusive: bool
    leader: bool = True
    tree: bool = True
    exit: i.LeaderExited | None = None
    asked: bool = False
    kill_at: float | None = None
    outcome: e.Outcome | None = None
    used_mib: int = 0
    pid_hidden: bool = False


@dataclass(slots=True, repr=False)
class Outside:
    """What a deck runs in. Inputs for the core gather in `inbox`."""

    file: DeckFile
    make_gpus: Callable[[], list[Gpu]]
    cores: int = 16
    on_cpu: bool = False
    now: float = 1000.0
    facts: list[e.Fact] = field(default_factory=list)
    inbox: list[i.Input] = field(default_factory=list)
    procs: dict[str, Proc] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    launched: list[Launch] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)
    attempted: set[str] = field(default_factory=set)
    strangers: dict[str, tuple[i.Process, ...]] = field(default_factory=dict)
    gone_gpus: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)
    """GPUs that other decks have, and who."""
    kept: tuple[str, ...] = ()
    """GPUs that are kept from other decks for a task that waits for several."""
    memory_mib: int = 64_000
    refuse: int = 0
    slow_checks: bool = False
    unanswered: list[str] = field(default_factory=list)
    boot_id: str = "boot"
    past: float = 0.0
    """Seconds of earlier boots."""
    deck: Deck = field(init=False)

    def gather(self, effect: Gather) -> None:
        task = self.deck.by_name.get(effect.task)
        assert effect.gpus == () or (task is not None and isinstance(task.phase, Queued)), "kept for nobody"
        assert len(effect.gpus) != 1
        able = (Queued, Starting)
        assert not effect.first or any(task.spec.next and isinstance(task.phase, able) for task in self.deck.tasks)
        self.kept = effect.gpus

    def judge(self, proc: Proc) -> e.Outcome:
        assert proc.exit is not None
        code = proc.exit.code
        if code == 0:
            return e.Outcome("ok", 0)
        return e.Outcome("exit", code)

    def launch(self, effect: Launch) -> None:
        assert effect.token not in self.tokens, f"token of {effect.task} is started twice"
        self.tokens.add(effect.token)
        task = self.deck.by_name[effect.task]
        assert any(isinstance(fact, e.AttemptStarting) and fact.token == effect.token for fact in reversed(self.facts))
        if self.refuse:
            self.refuse -= 1
            self.inbox.append(i.SpawnRefused(effect.token, "fork refused"))
            return
        claimed = tuple((uuid, self.elsewhere[uuid]) for uuid in effect.gpus if uuid in self.elsewhere)
        if claimed:
            self.inbox.append(i.SpawnRefused(effect.token, claimed[0][1], claimed))
            return
        proc = Proc(effect.token, effect.task, effect.gpus, task.spec.resources.exclusive)
        self.launched.append(effect)
        self.procs[effect.token] = proc
        self.attempted.add(effect.task)
        self._check_slots(proc)
        self.inbox.append(i.Spawned(effect.token, 1000 + len(self.procs), len(self.procs)))

    def _check_slots(self, new: Proc) -> None:
        for uuid in new.gpus:
            on_it = [proc for proc in self.procs.values() if proc.tree and uuid in proc.gpus]
            assert uuid not in self.elsewhere, f"{uuid} is another deck's"
            slots = self.deck.gpus[uuid].slots
            assert slots == "auto" or len(on_it) <= slots, f"{uuid} has {len(on_it)} trees"
            assert len(on_it) == 1 or not any(proc.exclusive for proc in on_it), f"{uuid} is shared with an exclusive"

    def stop(self, effect: Stop) -> None:
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
        proc.exit = i.LeaderExited(proc.token, code, self.now, signal, spawn_error)
        if code == 0 and (outcome is None or outcome.ok):
            self.outputs.add(proc.task)
        self.inbox.append(proc.exit)

    def tree_goes(self, proc: Proc) -> None:
        assert proc.tree
        assert not proc.leader
        proc.tree = False
        self.inbox.append(i.TreeGone(proc.token, self.now))

    def proc(self, task: str) -> Proc:
        found = [proc for proc in self.procs.values() if proc.task == task and proc.tree]
        assert len(found) == 1, f"{task} has {len(found)} process trees"
        return found[0]

    def live(self) -> list[Proc]:
        return [proc for proc in self.procs.values() if proc.tree]

    def readings(self) -> tuple[i.GpuReading, ...]:
        return tuple(self._reading(uuid) for uuid in self.deck.present_gpus)

    def _reading(self, uuid: str) -> i.GpuReading:
        if uuid in self.gone_gpus:
            return i.GpuReading(uuid, self.now, lost="GPU is lost")
        ours = [i.Process(index, proc.used_mib, proc.token) for index, proc in enumerate(self.live(), 5000)
                if uuid in proc.gpus]  # fmt: skip
        processes = (*ours, *self.strangers.get(uuid, ()))
        used = sum(process.used_mib or 0 for process in processes)
        total = self.deck.present_gpus[uuid].total_mib
        return i.GpuReading(uuid, self.now, total, used, processes=processes)

    def other_deck(self, uuid: str, deck: str = "sweep", user: str = "alice") -> None:
        self.elsewhere[uuid] = f"deck {deck} of {user} has it (engine 8123)"

    def stranger(self, uuid: str, used_mib: int = 10_000, user: str = "alice") -> None:
        self.strangers[uuid] = (i.Process(4711, used_mib, user=user),)
