"""Any deck, any mishap, in any order: the promises hold after every step."""

from __future__ import annotations

from copy import deepcopy

from core_decks import changed_file, worlds
from core_removal import everything_ends, starts_once_cleared
from core_restored import assert_restores
from core_world import Proc, World
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.deck import Task
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.phases import ACTIVE, FINAL, Backoff, Blocked, Queued, Running, Starting, Unknown, Waiting
from gpudeck.engine.core.preempt import candidates

OUTCOMES = {
    "ok": e.Outcome("ok", 0),
    "exit": e.Outcome("exit", 1),
    "device": e.Outcome("exit", 1, device_fault=True),
    "oom": e.Outcome("oom", 1),
    "missing": e.Outcome("missing output", 0),
}


class AnyDeck(RuleBasedStateMachine):
    world: World

    @initialize(world=worlds(), slow=st.sampled_from([False, False, True]))
    def deck(self, world: World, slow: bool) -> None:
        self.world = world
        world.slow_checks = slow
        world.begin()

    # -- processes ----------------------------------------------------------------------------------------------------

    def some(self, data: st.DataObject, *phases: type) -> Task | None:
        found = [task.name for task in self.world.deck.tasks if isinstance(task.phase, phases)]
        return self.world.task(data.draw(st.sampled_from(found), "task")) if found else None

    def proc(self, data: st.DataObject) -> Proc | None:
        found = [proc.task for proc in self.world.live()]
        return self.world.proc(data.draw(st.sampled_from(found), "process of")) if found else None

    @rule(
        data=st.data(),
        kinds=st.lists(st.sampled_from([*OUTCOMES, "ok", "ok"]), min_size=1, max_size=4),
        used_mib=st.integers(0, 9_000),
        after_s=st.sampled_from([0.0, 1.0, 70.0]),
    )
    def processes_end(self, data: st.DataObject, kinds: list[str], used_mib: int, after_s: float) -> None:
        for kind in kinds:
            proc = self.proc(data)
            if proc is None:
                return
            proc.used_mib = used_mib
            self.world.sample()
            self.world.advance(after_s)
            if not proc.tree:
                return
            outcome = OUTCOMES[kind]
            if proc.leader:
                self.world.leader_exits(proc, outcome.exit_code, outcome=outcome)
            self.world.tree_goes(proc)
            self.world.settle()

    @rule(data=st.data(), code=st.sampled_from([0, 1, None]))
    def a_leader_exits_before_its_tree(self, data: st.DataObject, code: int | None) -> None:
        proc = self.proc(data)
        if proc is not None and proc.leader:
            self.world.leader_exits(proc, code)
            self.world.settle()

    @rule(data=st.data())
    def a_command_cannot_be_started(self, data: st.DataObject) -> None:
        proc = self.proc(data)
        if proc is not None and proc.leader:
            self.world.end(proc.task, 127, spawn_error="no such command")

    @rule(seconds=st.sampled_from([0.5, 5.0, 12.0, 61.0, 400.0, 5_000.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.world.sample()

    @rule(count=st.integers(1, 3))
    def starts_will_be_refused(self, count: int) -> None:
        self.world.refuse = count

    # -- the user -----------------------------------------------------------------------------------------------------

    def some_names(self, data: st.DataObject, *phases: type) -> list[str]:
        names = [task.name for task in self.world.deck.tasks if isinstance(task.phase, phases)]
        return data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)) if names else []

    @rule(data=st.data(), verb=st.sampled_from(["cancel", "cancel", "kill"]))
    def the_user_cancels(self, data: st.DataObject, verb: str) -> None:
        self.world.verb(verb, *self.some_names(data, object))

    @rule(data=st.data())
    def a_task_makes_way(self, data: st.DataObject) -> None:
        able = [attempt.token for _, attempt in candidates(self.world.deck)]
        if able:
            asked = i.Preempt((data.draw(st.sampled_from(able)),), "eval")
            self.world.give(asked)
            assert asked.did

    @rule(data=st.data())
    def the_user_retries(self, data: st.DataObject) -> None:
        self.world.verb("retry", *self.some_names(data, *FINAL, Backoff, Unknown))

    @rule(
        data=st.data(),
        fresh=st.booleans(),
        downstream=st.booleans(),
        env=st.sampled_from([(), (("BATCH_SIZE", "8"),), (("SEED", None),)]),
        not_on=st.sampled_from([(), ("GPU-0",), ("GPU-0", "GPU-1")]),
    )
    def the_user_retries_with_options(
        self, data: st.DataObject, fresh: bool, downstream: bool, env: tuple[object, ...], not_on: tuple[str, ...]
    ) -> None:
        names = self.some_names(data, *FINAL, Backoff, Unknown)
        before = len(self.world.facts)
        self.world.verb("retry", *names, downstream=downstream, fresh=fresh, env=env, not_on=not_on)
        wanted = e.RetryOptions(fresh, env, not_on)  # pyright: ignore[reportArgumentType]
        retried = [fact for fact in self.world.facts[before:] if isinstance(fact, e.TaskRetried) and fact.by]
        assert all(fact.again == wanted for fact in retried)
        assert downstream or {fact.task for fact in retried} <= set(names)
        for launch in self.world.launched:
            task = self.world.deck.by_name.get(launch.task)
            lasts = task is not None and launch.attempt == task.attempts and task.attempt() is not None
            if task is not None and lasts and task.name in names:
                assert launch.env == task.again.env

    @rule(data=st.data())
    def the_user_accepts(self, data: st.DataObject) -> None:
        names = self.some_names(data, object)
        started = len(self.world.launched)
        before = self.world.phases()
        self.world.verb("accept", *names)
        deck = self.world.deck
        assert not any(task.index in deck.marks.changed | deck.marks.stale for task in map(self.world.task, names))
        assert len(self.world.launched) == started
        assert self.world.phases() == before

    @rule(data=st.data(), verb=st.sampled_from(["hold", "release", "release"]))
    def the_user_holds_or_releases(self, data: st.DataObject, verb: str) -> None:
        self.world.verb(verb, *self.some_names(data, Waiting, Queued, Backoff, Running))

    @rule(data=st.data(), value=st.integers(-2, 9))
    def the_user_gives_a_priority(self, data: st.DataObject, value: int) -> None:
        self.world.verb("priority", *self.some_names(data, object), value=value)

    @precondition(lambda self: self.world.acts)
    @rule(data=st.data())
    def the_user_takes_something_back(self, data: st.DataObject) -> None:
        """Whatever it was and whatever came after it, its own undo included."""
        world = self.world
        act = data.draw(st.sampled_from(world.acts[-4:]), "act")
        known = world.deck.acts.get(act)
        running, final = set(world.running()), {task.name for task in world.deck.tasks if isinstance(task.phase, FINAL)}
        world.undo(act)
        assert running <= set(world.running()), "what runs is never touched"
        back = {task.name for task in world.deck.tasks if isinstance(task.phase, FINAL)} - final
        assert known is not None or not back

    @rule(for_s=st.sampled_from([0.0, 30.0]))
    def the_deck_is_paused_for_a_while(self, for_s: float) -> None:
        self.world.verb("pause")
        started = len(self.world.launched)
        for proc in self.world.live()[:1]:
            self.world.end(proc.task)
        self.world.advance(for_s)
        assert len(self.world.launched) == started
        if not self.world.deck.run.ended:
            self.world.verb("unpause")

    @precondition(lambda self: self.world.deck.run.halted)
    @rule()
    def the_user_lifts_the_halt(self) -> None:
        self.world.verb("unpause")

    @rule(data=st.data(), verb=st.sampled_from(["drain", "take", "enable", "enable", "enable"]))
    def a_verb_on_a_gpu(self, data: st.DataObject, verb: str) -> None:
        if self.world.deck.gpus:
            gpu = data.draw(st.sampled_from(sorted(self.world.deck.gpus)))
            self.world.give(i.GpuVerb(verb, gpu))  # pyright: ignore[reportArgumentType]

    # -- the box ------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), come=st.booleans(), mib=st.sampled_from([10, 2_000, 15_000]), graphics=st.booleans())
    def others_come_or_go(self, data: st.DataObject, come: bool, mib: int, graphics: bool) -> None:
        if not self.world.deck.gpus:
            return
        gpu = data.draw(st.sampled_from(sorted(self.world.deck.gpus)))
        if come:
            self.world.strangers[gpu] = (i.Process(4711, mib, user="alice", graphics=graphics),)
        else:
            self.world.strangers.pop(gpu, None)
        self.world.advance(0.1)
        self.world.sample()

    @rule(data=st.data(), come=st.booleans(), told=st.booleans())
    def another_deck_comes_or_goes(self, data: st.DataObject, come: bool, told: bool) -> None:
        """Told or not before the next start: a lock file is asked once a second."""
        world = self.world
        used = {uuid for proc in world.live() for uuid in proc.gpus}
        free = sorted(set(world.deck.gpus) - used - set(world.kept))
        if come and free:
            world.other_deck(data.draw(st.sampled_from(free)))
        elif world.elsewhere:
            del world.elsewhere[data.draw(st.sampled_from(sorted(world.elsewhere)))]
        if told:
            world.sample()

    @rule(data=st.data())
    def a_gpu_is_lost(self, data: st.DataObject) -> None:
        if self.world.deck.gpus:
            self.world.gone_gpus.add(data.draw(st.sampled_from(sorted(self.world.deck.gpus))))
            self.world.sample()

    @rule()
    def lost_gpus_are_back(self) -> None:
        self.world.gone_gpus.clear()
        self.world.sample()

    @rule(data=st.data(), count=st.integers(1, 4), kind=st.sampled_from(["device", "device", "exit"]))
    def tasks_fail_fast_on_a_gpu(self, data: st.DataObject, count: int, kind: str) -> None:
        gpu = data.draw(st.sampled_from(sorted(self.world.deck.gpus) or [""]))
        for _ in range(count):
            for proc in self.world.live():
                if gpu in proc.gpus and proc.leader:
                    self.world.end(proc.task, 1, outcome=OUTCOMES[kind])

    @rule(data=st.data())
    def the_disk_is_full_for_a_while(self, data: st.DataObject) -> None:
        self.world.give(i.JournalState(False, "no space left on device"))
        started = len(self.world.launched)
        self.processes_end(data, ["ok", "exit"], 100, 0.0)
        assert len(self.world.launched) == started
        self.world.give(i.JournalState(True))

    @rule(memory_mib=st.sampled_from([1_000, 30_000, 64_000]))
    def memory_of_the_host_changes(self, memory_mib: int) -> None:
        self.world.memory_mib = memory_mib
        self.world.sample()

    @rule()
    def outputs_are_looked_at(self) -> None:
        self.world.answer_checks()
        self.world.settle()

    @rule(data=st.data())
    def an_output_appears_or_goes(self, data: st.DataObject) -> None:
        self.world.outputs ^= {data.draw(st.sampled_from([task.name for task in self.world.deck.tasks]))}

    # -- engines ------------------------------------------------------------------------------------------------------

    @rule(unknown=st.integers(0, 3), reboot=st.integers(0, 3))
    def the_engine_is_killed_and_another_goes_on(self, unknown: int, reboot: int) -> None:
        assert_restores(self.world)
        unproven = (lambda proc: proc.pid_hidden) if unknown == 0 else (lambda _: False)
        if unknown == 0:
            for proc in self.world.live()[:1]:
                proc.pid_hidden = True
        self.world.restart(unproven=unproven, reboot=reboot == 0)

    @rule(now=st.booleans())
    def the_engine_stops_its_tasks(self, now: bool) -> None:
        world = self.world
        world.give(i.Shutdown(now, "INT", 5.0))
        world.advance(60.0)
        assert not any(isinstance(task.phase, (Starting, Running)) for task in world.deck.tasks)
        world.restart()

    @rule(
        data=st.data(),
        changed=st.booleans(),
        reboot=st.integers(0, 5),
        policy=st.sampled_from([{}, {"retries": 0}, {"retries": 3, "ladder": ()}, {"timeout_s": 30.0}]),
    )
    def another_engine_finds_the_file_changed(
        self, data: st.DataObject, changed: bool, reboot: int, policy: dict[str, object]
    ) -> None:
        world = self.world
        name = data.draw(st.sampled_from([task.name for task in world.deck.tasks]))
        world.restart(file=changed_file(world.file, name, **policy), changed=changed, reboot=reboot == 0)

    @rule(data=st.data(), change=st.booleans())
    def a_screen_opens_the_deck(self, data: st.DataObject, change: bool) -> None:
        world = self.world
        name = data.draw(st.sampled_from([task.name for task in world.deck.tasks]))
        before, started, runs = world.phases(), len(world.launched), world.deck.run.number
        final = {task.name for task in world.deck.tasks if isinstance(task.phase, FINAL) and not task.gone}
        ended = world.deck.run.ended
        world.reopen(file=changed_file(world.file, name) if change else None)
        assert not final & {launch.task for launch in world.launched[started:]}
        assert {task: world.phase(task) for task in final} == {task: before[task] for task in final}
        assert ended or world.deck.run.number == runs
        if ended and not any(state in before.values() for state in ("waiting", "queued", "backoff")):
            assert world.deck.run.number == runs, "a run began although nothing is new"

    @precondition(lambda self: self.world.deck.run.ended)
    @rule(
        data=st.data(),
        takes=st.sampled_from(
            [("failed", "changed", "stale"), ("new",), ("all",), ("failed", "changed", "stale", "cancelled")]
        ),
    )
    def another_run(self, data: st.DataObject, takes: tuple[str, ...]) -> None:
        world = self.world
        name = data.draw(st.sampled_from([task.name for task in world.deck.tasks]))
        file = changed_file(world.file, name) if data.draw(st.booleans()) else None
        before = world.phases()
        world.restart(file=file)
        assert world.deck.run.ended
        started = len(world.launched)
        world.begin(takes)
        if "failed" not in takes and "all" not in takes:
            for launch in world.launched[started:]:
                assert before[launch.task] != "failed"

    @precondition(lambda self: not self.world.deck.run.ended)
    @rule()
    def the_run_comes_to_its_end(self) -> None:
        everything_ends(self.world)

    # -- promises -----------------------------------------------------------------------------------------------------

    @invariant()
    def what_waits_has_a_reason(self) -> None:
        deck = self.world.deck
        for task in deck.tasks:
            waits = isinstance(task.phase, (Waiting, Queued, Blocked, Backoff)) and not deck.run.ended
            obstacles = explain(deck, task, self.world.now)
            if waits:
                assert obstacles, f"{task.name} waits without a reason"
            elif task.selected and isinstance(task.phase, (*ACTIVE, *FINAL)):
                assert obstacles == []

    @invariant()
    def no_gpu_is_kept_when_nothing_waits_for_it(self) -> None:
        world = self.world
        assert world.kept == world.deck.gathering
        assert not (world.deck.run.ended and world.kept)

    @rule(data=st.data())
    def without_its_obstacles_a_task_starts(self, data: st.DataObject) -> None:
        task = self.some(data, Queued)
        if task is not None and task.selected and not self.world.deck.run.ended:
            starts_once_cleared(deepcopy(self.world), task.name)

    @precondition(lambda self: not self.world.deck.run.ended)
    @rule()
    def a_deck_in_which_all_ends_well_comes_to_its_end(self) -> None:
        everything_ends(deepcopy(self.world))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            everything_ends(self.world)


TestAnyDeck = AnyDeck.TestCase
_ = Unknown
