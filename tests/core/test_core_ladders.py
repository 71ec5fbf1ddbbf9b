"""What the rungs of on_oom and on_timeout ask for: more time, more memory, other GPUs."""

from __future__ import annotations

from dataclasses import replace

from core_decks import changed_file
from core_edits import EditedWorld, with_tasks
from core_world import CARD_MIB, World, cards, deck_file, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import Asks, Extras, TaskSpec, Work

LONGER = (Asks(timeout_s=400.0), Asks(timeout_s=1000.0))


def slow(name: str, *rungs: Asks, **more: object) -> TaskSpec:
    """A task that is stopped after 100 s at first."""
    return spec(name, timeout_s=100.0, grace_s=0.0, on_timeout=rungs, **more)


def edited(before: TaskSpec, now: TaskSpec, gpus: int = 1) -> World:
    """A task that is on a rung, or comes to its end, when the file is edited."""
    found = EditedWorld(deck_file([before]), lambda: cards(gpus), cores=8, on_cpu=False)
    found.begin()
    found.advance(150 if before.on_timeout else 50)
    found.edit(with_tasks(found.file, now))
    return found


def lasts_s(found: World, name: str = "a") -> float:
    """The attempt that runs now is left to its timeout: how long it lasts."""
    before = found.task(name).attempts
    found.advance(1100)
    (end,) = [fact for fact in found.of(e.AttemptEnded) if fact.attempt == before]  # pyright: ignore
    return round(end.duration_s)  # pyright: ignore


def test_each_rung_of_on_timeout_gives_more_time_and_an_attempt_beyond_the_retries() -> None:
    found = world(slow("a", *LONGER))
    found.advance(2000)
    ends = [(round(end.duration_s), end.next) for end in found.of(e.AttemptEnded)]  # pyright: ignore
    assert ends == [(100, "queued"), (400, "queued"), (1000, "failed")]
    assert [launch.timeout_rung for launch in found.launched] == [0, 1, 2]


def test_after_the_last_rung_of_on_timeout_a_retry_has_as_much_time() -> None:
    found = world(slow("a", *LONGER[:1], retries=1))
    found.advance(2000)
    ends = [(round(end.duration_s), end.next) for end in found.of(e.AttemptEnded)]  # pyright: ignore
    assert ends == [(100, "queued"), (400, "backoff"), (400, "failed")]


def test_only_an_end_by_timeout_takes_a_rung_of_on_timeout() -> None:
    found = world(slow("a", *LONGER, retries=1))
    found.end("a", 1)
    found.advance(20)
    assert [launch.timeout_rung for launch in found.launched] == [0, 0]


def test_an_engine_that_was_killed_stops_what_runs_at_the_time_of_its_rung() -> None:
    found = world(slow("a", *LONGER))
    found.advance(150)
    found.restart()
    assert (found.phase("a"), lasts_s(found)) == ("running", 400)


def test_an_engine_that_was_killed_takes_the_next_rung_all_the_same() -> None:
    found = world(slow("a", *LONGER))
    found.advance(150)
    found.restart()
    found.advance(400)
    found.restart()
    assert [launch.timeout_rung for launch in found.launched] == [0, 1, 2]


def test_an_attempt_that_was_interrupted_runs_again_on_its_rung() -> None:
    found = world(slow("a", *LONGER))
    found.advance(150)
    found.restart(reboot=True)
    assert [launch.timeout_rung for launch in found.launched] == [0, 1, 1]


def test_a_retry_by_hand_begins_without_rungs() -> None:
    found = world(slow("a", *LONGER[:1]))
    found.advance(600)
    found.verb("retry", "a")
    assert lasts_s(found) == 100


def test_a_retry_that_is_taken_back_leaves_the_task_on_its_rung() -> None:
    found = world(slow("a", *LONGER, retries=1, backoff_s=500.0))
    found.advance(150)
    found.end("a", 1)
    found.verb("pause")
    found.undo(found.verb("retry", "a"))
    found.verb("unpause")
    found.advance(700)
    assert found.launched[-1].timeout_rung == 1


def test_both_ladders_count_for_themselves_and_what_they_ask_for_adds_up() -> None:
    oom = {"ladder": (Work("small"),), "on_oom": (Asks(memory_mib=20_000),)}
    found = world(slow("a", *LONGER, **oom))
    found.memory_mib = 64_000
    found.sample()
    found.advance(150)
    found.oom("a")
    asked = found.task("a").begun_spec
    assert (found.launched[-1].rung, found.launched[-1].timeout_rung) == (1, 1)
    assert (asked.resources.memory_mib, asked.policy.timeout_s) == (20_000, 400.0)


def test_on_timeout_has_the_last_word_on_time_and_on_oom_on_all_else() -> None:
    oom = Asks(gpus=2, gpu_memory_mib=2, memory_mib=2, timeout_s=2.0, slurm=(("qos", "oom"), ("time", 2.0)))
    late = Asks(gpus=1, gpu_memory_mib=1, memory_mib=1, timeout_s=1.0, slurm=(("qos", "late"), ("time", 1.0)))
    task = spec("a", ladder=(Work("x"),), on_oom=(oom,), on_timeout=(late,)).asking(1, 1)
    asked = task.resources
    assert (asked.gpus, asked.gpu_memory_mib, asked.memory_mib, task.policy.timeout_s) == (2, 2, 2, 1.0)
    assert dict(task.extras.slurm) == {"qos": "oom", "time": 1.0}


def test_memory_and_time_of_a_rung_go_before_what_the_task_says_to_slurm() -> None:
    extras = Extras(slurm=(("mem", 10), ("time", 60.0), ("qos", "short")))
    task = spec("a", extras=extras, on_timeout=(Asks(memory_mib=20, timeout_s=90.0),))
    assert task.asking(0, 1).extras.slurm == (("qos", "short"),)


def test_beyond_the_last_rung_all_is_as_on_it() -> None:
    task = spec("a", timeout_s=1.0, on_timeout=LONGER)
    assert [task.asking(0, rung).policy.timeout_s for rung in range(4)] == [1.0, 400.0, 1000.0, 1000.0]


def test_a_rung_waits_until_as_many_gpus_are_free_as_it_asks_for() -> None:
    found = world(slow("a", Asks(gpus=2)), spec("b"), gpus=2)
    found.advance(150)
    assert (found.phase("a"), found.running()) == ("queued", {"b": (1,)})
    found.end("b")
    assert found.running() == {"a": (0, 1)}


def test_a_rung_waits_until_as_much_of_a_card_is_free_as_it_asks_for() -> None:
    found = world(slow("a", Asks(gpu_memory_mib=CARD_MIB), gpu_memory_mib=100), spec("b", gpu_memory_mib=100), slots=2)
    found.advance(150)
    assert (found.phase("a"), found.running()) == ("queued", {"b": (0,)})
    found.end("b")
    assert found.running() == {"a": (0,)}


def test_why_waits_a_task_on_a_rung_tells_what_the_rung_asks_for() -> None:
    found = world(spec("b", memory_mib=10), slow("a", Asks(memory_mib=4096)), gpus=2, begin=False)
    found.memory_mib = 2048
    found.deck.memory_total_mib = 64_000
    found.begin()
    found.sample()
    found.advance(150)
    (why,) = [obstacle.text for obstacle in explain(found.deck, found.task("a"), found.now)]
    assert why.startswith("needs 4.0 GiB of memory")


def test_a_timeout_of_a_rung_that_is_edited_holds_at_once() -> None:
    found = edited(slow("a", *LONGER), slow("a", Asks(timeout_s=600.0)))
    assert lasts_s(found) == 600


def test_a_timeout_of_a_rung_that_was_edited_while_no_engine_ran_holds_from_its_return_on() -> None:
    found = world(slow("a", *LONGER))
    found.advance(150)
    edited = slow("a", Asks(timeout_s=600.0), position=0)
    found.restart(file=replace(found.file, tasks=(edited,)))
    assert lasts_s(found) == 600


def test_what_a_running_attempt_has_stays_its_own_when_its_rung_is_edited() -> None:
    found = edited(slow("a", Asks(gpus=2, timeout_s=400.0)), slow("a", Asks(timeout_s=400.0)), gpus=2)
    assert found.task("a").begun_spec.resources.gpus == 2


def test_an_attempt_of_other_work_keeps_the_time_of_its_rung() -> None:
    found = world(slow("a", *LONGER))
    found.advance(150)
    found.reopen(file=changed_file(found.file, "a", timeout_s=50.0, on_timeout=()))
    assert lasts_s(found) == 400


def test_a_queued_task_that_becomes_other_work_begins_without_the_rungs_of_the_old() -> None:
    before = slow("a", *LONGER, ladder=(Work("small"),))
    found = EditedWorld(deck_file([before]), lambda: cards(1), cores=8, on_cpu=False)
    found.begin()
    found.advance(150)
    found.oom("a")
    found.verb("pause")
    found.advance(500)
    assert (found.phase("a"), found.task("a").timeout_ends, found.task("a").oom_ends) == ("queued", 2, 1)
    found.edit(with_tasks(found.file, replace(before, fingerprint="other")))
    found.verb("unpause")
    found.advance(1)
    assert (found.launched[-1].rung, found.launched[-1].timeout_rung) == (0, 0)


def test_a_rung_that_is_added_to_on_timeout_holds_for_what_runs() -> None:
    found = edited(slow("a"), slow("a", *LONGER))
    found.advance(100)
    assert (found.phase("a"), found.launched[-1].timeout_rung) == ("running", 1)
