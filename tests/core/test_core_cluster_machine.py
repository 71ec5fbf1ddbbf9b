"""Any deck on a cluster, any mishap, in any order: the promises hold after every step."""

from __future__ import annotations

from dataclasses import replace

from core_cluster import Cluster
from core_decks import worlds
from core_restored import assert_restores
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from test_core_machine import AnyDeck

from gpudeck.engine.core import events as e
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.fit import cluster_obstacle, host_obstacle, starts_barred
from gpudeck.engine.core.phases import ACTIVE, FINAL, Backoff, Blocked, Queued, Running, Starting, Waiting


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    one = draw(worlds())
    chosen = replace(one.file.settings, backend="slurm", max_submitted=draw(st.integers(1, 4)))
    return Cluster(replace(one.file, settings=chosen), one.make_gpus, cores=one.cores)


class AnyDeckOnACluster(AnyDeck):
    world: Cluster  # pyright: ignore[reportIncompatibleVariableOverride]

    @initialize(world=clusters(), slow=st.sampled_from([False, False, True]))
    def deck(self, world: Cluster, slow: bool) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.world = world
        world.slow_checks = slow
        world.begin()

    def some_pending(self, data: st.DataObject) -> str:
        world = self.world
        found = [proc.task for proc in world.live() if world.jobs[proc.token].began_wall is None]
        return data.draw(st.sampled_from(found), "pending") if found else ""

    @rule(data=st.data(), why=st.sampled_from(["Priority", "Resources", "QOSMaxJobsPerUserLimit"]), when=st.booleans())
    def a_job_waits(self, data: st.DataObject, why: str, when: bool) -> None:
        name = self.some_pending(data)
        if name:
            self.world.waits(name, why, self.world.wall + 600.0 if when else None)

    @rule(data=st.data(), ago_s=st.sampled_from([0.0, 0.0, 3.0, -20.0, 9_000.0]))
    def a_job_begins(self, data: st.DataObject, ago_s: float) -> None:
        """Found out later, or by a clock that differs."""
        name = self.some_pending(data)
        if name:
            self.world.begins(name, ago_s=ago_s, nodes=data.draw(st.sampled_from([("n1",), ("n1", "n2")])))

    @rule(
        data=st.data(),
        cause=st.sampled_from(["oom", "timeout", "preempted", "node_fail", "node_fail", "cancelled", "launch"]),
        code=st.sampled_from([None, 0, 1, 143]),
        ago_s=st.sampled_from([0.0, 5.0]),
    )
    def the_cluster_ends_a_job(self, data: st.DataObject, cause: str, code: int | None, ago_s: float) -> None:
        proc = self.proc(data)
        if proc is not None and proc.leader:
            self.world.ends(proc.task, code, cause, ago_s=ago_s)  # pyright: ignore[reportArgumentType]

    @rule(reboot=st.booleans())
    def the_engine_crashes_before_it_wrote_what_began(self, reboot: bool) -> None:
        self.world.lose_the_last_facts()
        self.world.restart(reboot=reboot)
        assert_restores(self.world)

    @precondition(lambda self: not self.world.deck.run.ended)
    @rule()
    def a_new_host_loses_nothing(self) -> None:
        world = self.world
        lasting = {proc.token for proc in world.live()}
        world.restart(reboot=True)
        assert lasting <= {proc.token for proc in world.live()}
        assert lasting <= world.deck.active.keys()

    @invariant()
    def what_waits_has_a_reason(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        deck = self.world.deck
        for task in deck.tasks:
            obstacles = explain(deck, task, self.world.now)
            if isinstance(task.phase, Starting) and not deck.run.ended:
                assert [obstacle.kind for obstacle in obstacles] == ["pending"]
            elif isinstance(task.phase, (Waiting, Queued, Blocked, Backoff)) and not deck.run.ended:
                assert obstacles, f"{task.name} waits without a reason"
            elif task.selected and isinstance(task.phase, (*ACTIVE, *FINAL)):
                assert obstacles == []

    @invariant()
    def what_may_be_submitted_is(self) -> None:
        deck = self.world.deck
        if starts_barred(deck, self.world.now) is None and not deck.checking and cluster_obstacle(deck) is None:
            left = [deck.tasks[index] for index in deck.queue]
            assert all(host_obstacle(deck, task) is not None for task in left)

    @invariant()
    def both_clocks_tell_the_same_beginning(self) -> None:
        world = self.world
        for task in world.deck.active.values():
            attempt = task.attempt()
            assert attempt is not None
            assert abs((world.now - attempt.at) - (world.wall - attempt.wall)) < 1e-3

    @invariant()
    def what_runs_has_begun_where_its_job_runs(self) -> None:
        world = self.world
        for token, task in world.deck.active.items():
            if isinstance(task.phase, Running):
                attempt, job = task.phase.attempt, world.jobs[token]
                assert (attempt.began, attempt.job, attempt.nodes) == (True, job.number, job.nodes)

    @invariant()
    def what_never_began_took_no_time(self) -> None:
        begun = {(fact.task, fact.attempt) for fact in self.world.facts if isinstance(fact, e.AttemptRunning)}
        for fact in self.world.facts:
            if isinstance(fact, e.AttemptEnded) and (fact.task, fact.attempt) not in begun:
                assert fact.duration_s == 0.0


TestAnyDeckOnACluster = AnyDeckOnACluster.TestCase
