"""Tasks as jobs of a cluster: taken, begun and ended when a test says so, on nodes with clocks of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from core_outside import Outside
from core_world import Proc, World, cards, deck_file

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Launch, Stop
from gpudeck.engine.core.events import Cause, Fate, Unproven
from gpudeck.engine.core.fit import host_obstacle
from gpudeck.engine.core.spec import DeckSettings, TaskSpec


@dataclass(slots=True)
class Job:
    """What the cluster knows of an attempt."""

    number: str
    began_wall: float | None = None
    nodes: tuple[str, ...] = ()


@dataclass(slots=True, repr=False)
class Cluster(World):
    """A deck whose tasks run on a cluster, and the cluster. What ends has begun, unless a test says otherwise."""

    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    """By token."""

    # -- what the engine asks of it -----------------------------------------------------------------------------------

    def launch(self, effect: Launch) -> None:
        Outside.launch(self, effect)
        if effect.token not in self.procs:
            return
        self.inbox.pop()
        assert len(self.live()) <= self.deck.cluster + self.deck.cpu_surplus, "more jobs than max_submitted"
        assert not effect.gpus
        self._in_order(effect)
        job = self.jobs[effect.token] = Job(str(100 + len(self.jobs)))
        self.inbox.append(i.Submitted(effect.token, job.number))

    def _in_order(self, effect: Launch) -> None:
        deck = self.deck
        mine = deck.by_name[effect.task]
        for index in deck.queue:
            other = deck.tasks[index]
            passed = (deck.key_of(other), index) < (deck.key_of(mine), mine.index)
            assert not passed or host_obstacle(deck, other) is not None, f"{effect.task} went before {other.name}"

    def stop(self, effect: Stop) -> None:
        proc = self.procs.get(effect.token)
        if proc is not None and proc.tree and self.jobs[proc.token].began_wall is None:
            assert any(isinstance(fact, e.StopRequested) and self._token(fact) == proc.token for fact in self.facts)
            proc.leader = proc.tree = False
            self.inbox.append(i.TreeGone(proc.token, self.now, never_ran=True))
        else:
            Outside.stop(self, effect)

    # -- what the cluster does ----------------------------------------------------------------------------------------

    def waits(self, task: str, why: str, begins: float | None = None) -> None:
        """The cluster says why it has not begun a job."""
        self.give(i.Pending(self.proc(task).token, why, begins))

    def begins(self, task: str, *, ago_s: float = 0.0, nodes: tuple[str, ...] = ("node1",)) -> None:
        """A job began so long ago, as is found out now."""
        self.inbox.append(self._began(self.proc(task), ago_s, nodes))
        self.settle()

    def _began(self, proc: Proc, ago_s: float, nodes: tuple[str, ...]) -> i.Spawned:
        job = self.jobs[proc.token]
        job.began_wall, job.nodes = self.wall - ago_s, nodes
        return i.Spawned(proc.token, at=self.now - ago_s, nodes=nodes, job=job.number)

    def ends(
        self, task: str, code: int | None, cause: Cause, detail: str = "", *, ago_s: float = 0.0,
        nodes: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """A job ends, begun or not, and the cluster says why; *nodes*: on which it began nothing."""
        proc = self.proc(task)
        Outside.leader_exits(self, proc, code)
        assert proc.exit is not None
        self.inbox.pop()
        proc.exit = replace(proc.exit, cause=cause, detail=detail, at=self.now - ago_s, nodes=nodes)
        self.inbox.append(proc.exit)
        self.tree_goes(proc)
        self.settle()

    def leader_exits(
        self, proc: Proc, code: int | None, *, signal: int | None = None, spawn_error: str = "",
        outcome: e.Outcome | None = None,
    ) -> None:  # fmt: skip
        if self.jobs[proc.token].began_wall is None and not spawn_error:
            self.inbox.append(self._began(proc, 0.0, ("node1",)))
        Outside.leader_exits(self, proc, code, signal=signal, spawn_error=spawn_error, outcome=outcome)

    def begins_nothing(self, task: str, node: str) -> None:
        """A job ends on a node without having run anything."""
        proc = self.proc(task)
        Outside.leader_exits(self, proc, 125, spawn_error="its job began nothing")
        assert proc.exit is not None
        self.inbox[-1] = proc.exit = replace(proc.exit, nodes=(node,))
        self.tree_goes(proc)
        self.settle()

    def misses_its_program(self, task: str, node: str) -> None:
        """A job runs on a node that does not have its program."""
        self.begins(task, nodes=(node,))
        self.end(task, 127)

    def succeeds_by_itself(self, task: str) -> None:
        """A stop was on its way."""
        proc = self.proc(task)
        Outside.leader_exits(self, proc, 0)
        assert proc.exit is not None
        self.inbox[-1] = proc.exit = replace(proc.exit, by_itself=True)
        self.tree_goes(proc)
        self.settle()

    # -- a new engine -------------------------------------------------------------------------------------------------

    def _reboot(self) -> None:
        """The engine's host is another one; the cluster goes on."""
        back_s = self.now - 5.0
        for proc in self.procs.values():
            proc.kill_at = None if proc.kill_at is None else proc.kill_at - back_s
            proc.exit = None if proc.exit is None else replace(proc.exit, at=proc.exit.at - back_s)
        self.past += back_s
        self.now = 5.0
        self.boot_id += "'"

    def lose_the_last_facts(self) -> None:
        """What may reach the disk a moment later does not, in a crash."""
        while self.facts and isinstance(self.facts[-1], (e.AttemptSubmitted, e.AttemptRunning)):
            self.facts.pop()

    def _recover(self, token: str, unproven: Callable[[Proc], bool]) -> Fate:
        proc = self.procs.get(token)
        if proc is None:
            return World._recover(self, token, unproven)
        if unproven(proc):
            return Unproven()
        job = self.jobs[token]
        if job.began_wall is None and not proc.tree and proc.exit is None:
            self.inbox.append(i.TreeGone(token, self.now, never_ran=True))
            return "never ran"
        self.inbox.append(i.Submitted(token, job.number))
        if job.began_wall is not None:
            at = self.now - (self.wall - job.began_wall)
            self.inbox.append(i.Spawned(token, at=at, nodes=job.nodes, job=job.number))
        return World._recover(self, token, unproven)


def cluster(*tasks: TaskSpec, jobs: int = 2, begin: bool = True, selected: Iterable[str] | None = None) -> Cluster:
    """A cluster that takes so many jobs at once, and a deck that has begun its first run and come to rest."""
    settings = DeckSettings(backend="slurm", max_submitted=jobs)
    found = Cluster(deck_file(tasks, settings, selected), lambda: cards(1), cores=1)
    if begin:
        found.begin()
    return found
