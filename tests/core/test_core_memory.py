"""GPU memory: what is spoken for, what is learned, and who stays alone on a card."""

from __future__ import annotations

import pytest
from core_world import World, cards, deck_file, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.devices import Gpu

GIB = 1024


def shared(*tasks: object, **more: object) -> World:
    """One card of 80 GiB with four slots."""
    return world(*tasks, gpus=1, slots=4, total_mib=80 * GIB, **more)  # pyright: ignore[reportArgumentType]


def test_memory_of_others_and_reservations_add_up() -> None:
    found = shared(spec("a", gpu_memory_mib=40 * GIB), spec("b", gpu_memory_mib=35 * GIB), begin=False)
    found.strangers["GPU-0"] = (i.Process(1, 30 * GIB, user="x", graphics=True),)
    found.sample()
    found.begin()
    found.proc("a").used_mib = 2 * GIB
    found.advance(1)
    found.sample()
    assert found.running() == {"a": (0,)}


def test_a_card_is_filled_to_its_last_mib() -> None:
    found = shared(spec("a", gpu_memory_mib=50 * GIB), spec("b", gpu_memory_mib=30 * GIB))
    assert found.running() == {"a": (0,), "b": (0,)}


def test_a_reservation_lasts_as_long_as_its_attempt() -> None:
    found = shared(spec("a", gpu_memory_mib=60 * GIB), spec("b", gpu_memory_mib=30 * GIB))
    found.proc("a").used_mib = 10 * GIB
    found.advance(600)
    found.sample()
    assert found.phase("b") == "queued"


def test_what_an_attempt_takes_beyond_its_reservation_counts() -> None:
    found = shared(spec("a", gpu_memory_mib=10 * GIB), spec("b", gpu_memory_mib=40 * GIB, needs=("c",)), spec("c"))
    found.proc("a").used_mib = 50 * GIB
    found.advance(1)
    found.sample()
    found.end("c")
    assert found.phase("b") == "queued"


def test_a_task_that_says_nothing_counts_with_its_share_of_the_card() -> None:
    found = shared(spec("a"), spec("b", gpu_memory_mib=65 * GIB))
    assert found.running() == {"a": (0,)}
    found.end("a")
    assert found.running() == {"b": (0,)}


def test_auto_is_alone_on_its_card_until_a_peak_is_known() -> None:
    found = shared(spec("a0", gpu_memory_mib="auto"), spec("a1", gpu_memory_mib="auto"))
    assert found.running() == {"a0": (0,)}


def test_nobody_comes_beside_a_task_whose_memory_is_not_known() -> None:
    found = shared(spec("a", gpu_memory_mib="auto"), spec("b"))
    assert found.running() == {"a": (0,)}


@pytest.mark.parametrize("total", [80 * GIB, None])
def test_it_stays_alone_across_a_restart(total: int | None) -> None:
    found = world(spec("a", gpu_memory_mib="auto"), spec("b"), slots=2, total_mib=total)
    found.restart()
    assert found.running() == {"a": (0,)}


def test_a_learned_peak_lets_the_entrys_tasks_share_a_card() -> None:
    found = shared(*[spec(f"a{index}", gpu_memory_mib="auto") for index in range(4)])
    found.proc("a0").used_mib = 20 * GIB
    found.advance(1)
    found.sample()
    found.end("a0")
    assert found.running() == {"a1": (0,), "a2": (0,), "a3": (0,)}
    assert {proc.task: task_reserves(found, proc.task) for proc in found.live()} == dict.fromkeys(
        ["a1", "a2", "a3"], int(20 * GIB * 1.1)
    )


def task_reserves(found: World, name: str) -> int:
    attempt = found.task(name).attempt()
    assert attempt is not None
    return attempt.reserved_mib


def test_an_attempt_that_ran_out_of_memory_teaches_no_peak() -> None:
    found = shared(spec("a0", gpu_memory_mib="auto"), spec("a1", gpu_memory_mib="auto"), spec("a2"))
    found.proc("a0").used_mib = 20 * GIB
    found.advance(1)
    found.sample()
    found.oom("a0")
    assert found.running() == {"a1": (0,)}


def test_running_out_of_memory_raises_a_learned_reservation_by_half() -> None:
    found = shared(*[spec(f"a{index}", gpu_memory_mib="auto", retries=1, backoff_s=1.0) for index in range(2)])
    found.proc("a0").used_mib = 10 * GIB
    found.advance(1)
    found.sample()
    found.end("a0")
    found.oom("a1")
    found.advance(5)
    assert task_reserves(found, "a1") == int(int(10 * GIB * 1.1) * 1.5)


def test_running_out_of_memory_on_a_whole_card_asks_for_a_whole_card_again() -> None:
    found = shared(spec("a", gpu_memory_mib="auto", retries=1, backoff_s=1.0))
    found.oom("a")
    found.advance(5)
    assert found.running() == {"a": (0,)}


def test_a_card_whose_whole_memory_was_too_little_is_not_tried_again() -> None:
    def small_and_large() -> list[Gpu]:
        small, large = cards(2)
        small.total_mib, large.total_mib = 40 * GIB, 80 * GIB
        return [small, large]

    tasks = [spec("busy", gpu_ids=("1",)), spec("a", gpu_memory_mib="auto", retries=1, backoff_s=1.0)]
    found = World(deck_file(tasks), small_and_large)
    found.begin()
    assert found.running() == {"a": (0,), "busy": (1,)}
    found.oom("a")
    found.advance(5)
    assert found.phase("a") == "queued"
    found.end("busy")
    assert found.running() == {"a": (1,)}


def test_slots_auto_gives_as_many_as_fit() -> None:
    found = world(*[spec(f"a{index}", gpu_memory_mib=30 * GIB) for index in range(4)], slots="auto", total_mib=80 * GIB)
    assert len(found.running()) == 2


def test_with_slots_auto_a_task_that_says_nothing_is_alone() -> None:
    found = world(spec("a"), spec("b", gpu_memory_mib=GIB), slots="auto", total_mib=80 * GIB)
    assert found.running() == {"a": (0,)}


def test_memory_of_an_attempt_that_has_just_ended_is_not_held_against_the_next() -> None:
    found = world(spec("a", gpu_memory_mib=70 * GIB), spec("b", gpu_memory_mib=70 * GIB), total_mib=80 * GIB)
    found.verb("hold", "b")
    found.end("a")
    found.advance(1)
    reading = i.GpuReading("GPU-0", found.now, 80 * GIB, 70 * GIB)
    found.give(i.DevicesSampled((reading,)))
    found.verb("release", "b")
    assert found.running() == {"b": (0,)}


def test_in_a_container_the_memory_of_our_tasks_is_shared_out_among_them() -> None:
    found = shared(spec("a"), spec("b"), spec("c", gpu_memory_mib=30 * GIB))
    found.advance(1)
    hidden = tuple(i.Process(pid, 25 * GIB, visible=False) for pid in (1, 2))
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 80 * GIB, 50 * GIB, processes=hidden),)))
    gpu = found.deck.gpus["GPU-0"]
    assert (gpu.others_mib, gpu.foreign) == (0, "")


def test_memory_that_the_driver_does_not_tell_is_that_of_the_only_task_on_the_card() -> None:
    found = shared(spec("a"))
    found.advance(1)
    silent = (i.Process(100, None, found.proc("a").token),)
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 80 * GIB, 50 * GIB, processes=silent),)))
    gpu = found.deck.gpus["GPU-0"]
    assert [attempt.measured for attempt in gpu.holders.values()] == [{"GPU-0": 50 * GIB}]
    assert gpu.foreign == ""


def test_memory_that_the_driver_does_not_tell_is_that_of_the_tasks_that_share_the_card_and_nobody_elses() -> None:
    found = shared(spec("a"), spec("b"))
    found.advance(1)
    silent = tuple(i.Process(pid, None, found.proc(name).token) for pid, name in enumerate("ab", 100))
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 80 * GIB, 50 * GIB, processes=silent),)))
    gpu = found.deck.gpus["GPU-0"]
    assert [attempt.measured for attempt in gpu.holders.values()] == [{"GPU-0": 25 * GIB}, {"GPU-0": 25 * GIB}]
    assert (gpu.others_mib, gpu.foreign) == (0, "")


def test_a_big_task_waits_for_a_card_that_is_big_enough() -> None:
    found = shared(spec("a", gpu_memory_mib=70 * GIB), spec("b", gpu_memory_mib=20 * GIB))
    assert found.running() == {"a": (0,)}
