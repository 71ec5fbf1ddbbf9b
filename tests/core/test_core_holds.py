"""Cores and host memory that are held for the head of the queue, and heads that can never be placed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.build import build
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.simulate import simulate
from gpudeck.engine.core.spec import DeckSettings, TaskSpec

GIB = 1024
IMPATIENT = DeckSettings(gang_patience_s=0.0)


def learned(found: World, name: str, seconds: float) -> None:
    """Let the deck know how long a task takes."""
    found.deck.learned.success(found.task(name).spec.fingerprint, seconds)


def order_of_starts(found: World) -> list[str]:
    """End what runs, the oldest first, until the run is over."""
    while not found.deck.run.ended:
        found.advance(10)
        found.sample()
        found.end(next(iter(found.live())).task)
    return [launch.task for launch in found.launched]


def small_and_big(
    count: int, small: Mapping[str, Any], big: Mapping[str, Any], *, gpus: int = 0, cores: int = 8
) -> World:
    """Small tasks fill the box; an urgent big one comes when the first task is done."""
    tasks = [spec(f"s{index}", **small) for index in range(count)]
    late = spec("big", priority=10, after=("go",), **big)
    return world(spec("go", gpus=0, priority=20), *tasks, late, settings=IMPATIENT, gpus=gpus, cores=cores)


def test_an_urgent_task_that_needs_all_cores_does_not_wait_for_every_small_one() -> None:
    found = small_and_big(40, {"gpus": 0, "cpus": 1}, {"gpus": 0, "cpus": 8}, gpus=0, cores=8)
    assert order_of_starts(found).index("big") <= 9


def test_an_urgent_task_on_a_gpu_that_needs_all_cores_does_not_wait_for_every_small_one() -> None:
    found = small_and_big(40, {"gpus": 0, "cpus": 1}, {"gpus": 1, "cpus": 8}, gpus=1, cores=8)
    assert order_of_starts(found).index("big") <= 9


def test_an_urgent_task_that_needs_much_memory_does_not_wait_for_every_small_one() -> None:
    small = {"gpus": 0, "memory_mib": 12 * GIB}
    found = small_and_big(30, small, {"gpus": 0, "memory_mib": 50 * GIB}, gpus=0, cores=16)
    found.sample()
    assert order_of_starts(found).index("big") <= 9


def waits_for_cores(*tasks: TaskSpec) -> World:
    """`long` holds 6 of 8 cores for an hour, `big` needs 4; then come the others."""
    first = (spec("long", gpus=0, cpus=6), spec("big", gpus=0, cpus=4))
    found = world(*first, *tasks, gpus=2, cores=8, begin=False)
    learned(found, "long", 3600.0)
    return found


def test_a_task_that_waits_for_cores_says_how_many_are_free() -> None:
    found = waits_for_cores()
    found.begin()
    assert "needs 4 cores, 2 are free" in [each.text for each in explain(found.deck, found.task("big"), found.now)]


def test_a_task_that_ends_in_time_fills_in_on_held_cores() -> None:
    found = world(
        spec("a", gpus=0, cpus=2), spec("b", gpus=0, cpus=4), spec("big", gpus=0, cpus=8), spec("s", gpus=0, cpus=2),
        gpus=0, cores=8, begin=False,
    )  # fmt: skip
    learned(found, "a", 3600.0)
    learned(found, "b", 3600.0)
    learned(found, "s", 60.0)
    found.begin()
    assert "s" in found.running()


def test_one_that_would_end_too_late_does_not() -> None:
    found = world(
        spec("a", gpus=0, cpus=2), spec("b", gpus=0, cpus=4), spec("big", gpus=0, cpus=8), spec("s", gpus=0, cpus=2),
        gpus=0, cores=8, begin=False,
    )  # fmt: skip
    learned(found, "a", 3600.0)
    learned(found, "b", 3600.0)
    learned(found, "s", 3700.0)
    found.begin()
    assert "s" not in found.running()


def test_cores_that_the_head_leaves_over_are_used() -> None:
    found = waits_for_cores(spec("s", gpus=0, cpus=2))
    learned(found, "s", 9999.0)
    found.begin()
    assert sorted(found.running()) == ["long", "s"]


def test_tasks_that_ask_for_no_cores_are_not_held_up() -> None:
    found = waits_for_cores(spec("plain", gpus=0), spec("gpu"))
    learned(found, "plain", 9999.0)
    learned(found, "gpu", 9999.0)
    found.begin()
    assert sorted(found.running()) == ["gpu", "long", "plain"]


def test_held_cores_are_explained_with_the_name_of_the_head() -> None:
    found = world(
        spec("long", gpus=0, cpus=6), spec("big", gpus=0, cpus=8), spec("s", gpus=0, cpus=2), gpus=0, cores=8,
        settings=IMPATIENT,
    )  # fmt: skip
    (obstacle,) = explain(found.deck, found.task("s"), found.now)
    assert (obstacle.kind, obstacle.text, obstacle.tasks) == ("reserved", "8 cores: held for big since 0s", ("big",))


def test_a_gpu_is_held_for_a_task_that_waits_for_cores_only() -> None:
    found = world(
        spec("c", gpus=0, cpus=8), spec("big", cpus=8), *[spec(f"g{index}") for index in range(3)], cores=8,
        settings=IMPATIENT,
    )  # fmt: skip
    assert found.running() == {"c": ()}
    found.end("c")
    assert found.running() == {"big": (0,)}


def test_memory_that_the_box_does_not_have_is_held_for_nobody() -> None:
    found = world(
        spec("a", gpus=0, memory_mib=20 * GIB), spec("huge", gpus=0, memory_mib=500 * GIB),
        spec("s", gpus=0, memory_mib=10 * GIB), gpus=0, settings=IMPATIENT,
    )  # fmt: skip
    found.sample()
    assert sorted(found.running()) == ["a", "s"]


def test_before_the_hosts_memory_was_read_no_task_that_asks_for_some_starts() -> None:
    found = world(*[spec(f"a{index}", memory_mib=50 * GIB) for index in range(8)], spec("b"), gpus=8)
    assert sorted(found.running()) == ["b"]
    texts = [obstacle.text for obstacle in explain(found.deck, found.task("a0"), found.now)]
    assert texts == ["the host's memory has not been read yet"]
    found.sample()
    assert sorted(found.running()) == ["a0", "b"]


@pytest.mark.parametrize(("memory_mib", "ends_s"), [(None, 10.0), (64 * GIB, 40.0), (100 * GIB, 20.0)])
def test_a_plan_reckons_with_the_memory_that_it_is_told(memory_mib: int | None, ends_s: float) -> None:
    found = world(*[spec(f"a{index}", memory_mib=50 * GIB) for index in range(4)], gpus=4, begin=False)
    deck = build(found.file, gpus=found.make_gpus(), cores=16)
    planned = simulate(deck, lambda _: 10.0, memory_mib=memory_mib)
    assert max(item.end_s for item in planned) == ends_s


def test_a_cpu_task_does_not_wait_behind_many_kinds_of_gpu_tasks() -> None:
    gpu_tasks = [spec(f"g{index}", gpus=2, gpu_memory_mib=100 + index) for index in range(70)]
    found = world(spec("one"), *gpu_tasks, spec("cpu", gpus=0), gpus=2)
    assert sorted(found.running()) == ["cpu", "one"]


def test_a_gang_does_not_starve_behind_a_head_that_can_never_be_placed() -> None:
    tasks = [
        spec("long"),
        spec("never", gpus=3),
        spec("gang", gpus=2),
        *[spec(f"s{index}", entry=f"e{index}") for index in range(60)],
    ]
    found = world(*tasks, gpus=3, begin=False)
    found.verb("hold", "never", "gang")
    found.begin()
    found.verb("hold", "never", "gang")
    found.give(i.GpuVerb("drain", "GPU-0"))
    found.verb("release", "never", "gang")
    for _ in range(20):
        found.advance(100)
        found.end(next(proc.task for proc in found.live() if proc.task != "long"))
    assert "gang" in {launch.task for launch in found.launched}


def test_how_long_a_head_has_waited_is_not_forgotten_while_another_is_the_head() -> None:
    found = world(spec("long"), spec("gang", gpus=2), spec("late", gpus=2, priority=5, after=("go",)),
                  spec("go", gpus=0), spec("s"), gpus=2, begin=False)  # fmt: skip
    found.begin()
    began = found.now
    found.advance(300)
    found.end("go")
    found.advance(300)
    found.verb("cancel", "late")
    assert found.deck.heads[found.task("gang").index] == began


def test_a_place_at_the_head_is_forgotten_with_the_place_in_the_queue() -> None:
    found = world(spec("long"), spec("gang", gpus=2), gpus=2)
    assert found.deck.heads
    found.verb("hold", "gang")
    assert not found.deck.heads


def test_what_waits_behind_held_cores_starts_when_the_head_is_gone() -> None:
    found = world(
        spec("long", gpus=0, cpus=6), spec("big", gpus=0, cpus=8), spec("s", gpus=0, cpus=2), gpus=0, cores=8,
        settings=IMPATIENT,
    )  # fmt: skip
    assert found.phase("s") == "queued"
    found.verb("cancel", "big")
    assert found.phase("s") == "running"


def test_a_hold_on_a_task_that_has_ended_since_can_be_released() -> None:
    found = world(spec("a"), spec("b", gpus=0))
    found.verb("hold", "a")
    found.end("a")
    assert found.deck.by_name["a"].held
    found.verb("release", "a")
    assert not found.deck.by_name["a"].held
    assert found.phase("a") == "succeeded"


def test_a_task_that_has_ended_is_not_held() -> None:
    found = world(spec("a"))
    found.end("a")
    found.verb("hold", "a")
    assert not found.deck.by_name["a"].held


def filled(lengths: Mapping[str, float], *tasks: TaskSpec, memory_gib: int = 64, **more: object) -> list[str]:
    """Who runs on 8 cores, once it is known how long these take; nobody has patience with what is not known."""
    slots = more.pop("cpu_slots", None)
    settings = DeckSettings(gang_patience_s=0.0, cpu_slots=slots)  # pyright: ignore[reportArgumentType]
    more = {"gpus": 2, "cores": 8, **more}
    found = world(*tasks, settings=settings, begin=False, **more)  # pyright: ignore[reportArgumentType]
    found.memory_mib = memory_gib * GIB
    for name, seconds in lengths.items():
        learned(found, name, seconds)
    found.sample()
    found.begin()
    return sorted(found.running())


def waits_for_memory(first_cpus: int, big_cpus: int, small_cpus: int, small_s: float = 9999.0) -> list[str]:
    """`first` holds memory for an hour, `big` waits for it although its cores are free; then comes `small`."""
    return filled(
        {"first": 3600.0, "small": small_s},
        spec("first", gpus=0, cpus=first_cpus or None, memory_mib=40 * GIB),
        spec("big", gpus=0, cpus=big_cpus, memory_mib=40 * GIB),
        spec("small", gpus=0, cpus=small_cpus),
    )


def test_free_cores_are_held_for_a_task_that_waits_for_memory() -> None:
    assert waits_for_memory(2, 4, 2) == ["first", "small"]
    assert waits_for_memory(2, 4, 3) == ["first"]


def test_the_last_free_cores_are_held_for_it_too() -> None:
    assert waits_for_memory(4, 4, 1) == ["first"]


def test_a_task_that_wants_more_cores_than_there_are_can_have_them_once_none_is_taken() -> None:
    assert waits_for_memory(0, 16, 1, small_s=600.0) == ["first", "small"]
    assert waits_for_memory(0, 16, 1) == ["first"]


def waits_for_first_cores(big_cpus: int, small_s: float) -> list[str]:
    """`short` has 4 of 8 cores for 100 s, `long` 1 for an hour; `big` waits, then comes `small` for 2."""
    return filled(
        {"short": 100.0, "long": 3600.0, "small": small_s},
        spec("short", gpus=0, cpus=4),
        spec("long", gpus=0, cpus=1),
        spec("big", gpus=0, cpus=big_cpus),
        spec("small", gpus=0, cpus=2),
    )


def test_cores_are_expected_when_enough_of_them_come_free() -> None:
    assert "small" in waits_for_first_cores(7, small_s=100.0), "it ends in the very moment"
    assert "small" not in waits_for_first_cores(7, small_s=101.0)


def test_all_cores_are_expected_when_the_last_task_ends() -> None:
    assert "small" in waits_for_first_cores(16, small_s=600.0)
    assert "small" not in waits_for_first_cores(16, small_s=3700.0)


@pytest.mark.parametrize(("small_s", "starts"), [(100.0, True), (101.0, False)])
def test_cores_are_held_from_when_a_cpu_slot_comes_free(small_s: float, starts: bool) -> None:
    running = filled(
        {"a": 100.0, "b": 3600.0, "small": small_s},
        spec("a", gpus=0),
        spec("b", gpus=0),
        spec("big", gpus=0, cpus=4),
        spec("small", cpus=6),
        cpu_slots=2,
    )
    assert ("small" in running) is starts


@pytest.mark.parametrize(("small_s", "starts"), [(100.0, True), (101.0, False)])
def test_without_gpus_the_slots_of_gpu_tasks_are_no_slots_of_others(small_s: float, starts: bool) -> None:
    running = filled(
        {"gpu": 50.0, "a": 100.0, "b": 3600.0, "small": small_s},
        spec("gpu"),
        spec("a", gpus=0),
        spec("b", gpus=0),
        spec("big", gpus=0, cpus=4),
        spec("small", cpus=6),
        cpu_slots=2,
        gpus=0,
        on_cpu=True,
    )
    assert ("small" in running) is starts


@pytest.mark.parametrize(("small_s", "starts"), [(100.0, True), (101.0, False)])
def test_without_gpus_a_gpu_task_waits_for_a_slot_of_its_own_kind(small_s: float, starts: bool) -> None:
    long = [spec(f"g{index}", entry=f"g{index}") for index in range(4)]
    running = filled(
        {"g0": 100.0, "g1": 3600.0, "g2": 3600.0, "g3": 3600.0, "cpu": 3600.0, "small": small_s},
        *long,
        spec("cpu", gpus=0),
        spec("big", cpus=4),
        spec("small", gpus=0, cpus=6),
        cpu_slots=6,
        gpus=0,
        on_cpu=True,
    )
    assert ("small" in running) is starts


def test_what_is_held_for_a_task_is_not_in_its_own_way() -> None:
    found = world(spec("long"), spec("gang", gpus=3), gpus=3, settings=IMPATIENT)
    assert [item.kind for item in explain(found.deck, found.task("gang"), found.now)] == ["gpus", "slots"]
