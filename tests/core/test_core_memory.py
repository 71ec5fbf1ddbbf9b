"""GPU memory: what is spoken for, what is learned, and who stays alone on a card."""

from __future__ import annotations

import pytest
from core_world import World, cards, deck_file, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.fit import memory_in_words
from gpudeck.engine.core.spec import CardWork, DeckSettings, TaskSpec, Work

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
    found.advance(60)
    found.sample()
    found.end("a0")
    assert found.running() == {"a1": (0,), "a2": (0,), "a3": (0,)}
    assert {proc.task: task_reserves(found, proc.task) for proc in found.live()} == dict.fromkeys(
        ["a1", "a2", "a3"], 21 * GIB
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
    found.advance(60)
    found.sample()
    found.end("a0")
    found.oom("a1")
    found.advance(5)
    assert task_reserves(found, "a1") == int((10 * GIB + 512) * 1.5)


def after_a_peak(mib: int, *rest: TaskSpec, seconds: float = 60, code: int = 0) -> World:
    """`a0` has ended, and used so much on its card meanwhile; `a1` is of its entry, *rest* come after it."""
    found = shared(*[spec(f"a{index}", gpu_memory_mib="auto") for index in range(2)], *rest)
    found.proc("a0").used_mib = mib
    found.advance(seconds)
    found.sample()
    found.end("a0", code)
    return found


def test_a_short_attempt_was_hardly_seen_and_teaches_no_peak() -> None:
    found = after_a_peak(20 * GIB, spec("b", gpu_memory_mib=GIB), seconds=4.9)
    assert found.running() == {"a1": (0,)}


def test_an_attempt_of_five_seconds_teaches_its_peak() -> None:
    found = after_a_peak(20 * GIB, spec("b", gpu_memory_mib=GIB), seconds=5)
    assert found.running() == {"a1": (0,), "b": (0,)}


def test_an_attempt_that_failed_early_teaches_no_peak() -> None:
    found = after_a_peak(20 * GIB, spec("b", gpu_memory_mib=GIB), code=1)
    assert found.running() == {"a1": (0,)}


def test_what_a_failed_attempt_was_seen_to_use_corrects_what_its_entry_taught() -> None:
    found = shared(*[spec(f"a{index}", gpu_memory_mib="auto", retries=1, backoff_s=1.0) for index in range(2)])
    for name, mib, code in (("a0", 10 * GIB, 0), ("a1", 30 * GIB, 1)):
        found.proc(name).used_mib = mib
        found.advance(60)
        found.sample()
        found.end(name, code)
    found.advance(5)
    assert task_reserves(found, "a1") == int(30 * GIB * 1.05)


def test_what_was_learned_is_known_after_a_restart() -> None:
    found = after_a_peak(20 * GIB, spec("b", gpu_memory_mib=59 * GIB))
    found.restart()
    found.end("a1")
    found.verb("retry", "a1")
    assert task_reserves(found, "a1") == 21 * GIB
    assert found.running() == {"a1": (0,), "b": (0,)}


@pytest.mark.parametrize(
    ("mib", "words"),
    [
        (20 * GIB, "needs 21.0 GiB: peak 20.0 GiB of 1 earlier attempt of its entry plus 5 %"),
        (2 * GIB, "needs 2.5 GiB: peak 2.0 GiB of 1 earlier attempt of its entry plus 512 MiB"),
        (79 * GIB, "alone on its card: peak 79.0 GiB of 1 earlier attempt of its entry plus 5 % is more than one has"),
        (0, "alone on its card until a peak is known"),
    ],
)
def test_what_a_task_asks_for_is_told_with_where_it_comes_from(mib: int, words: str) -> None:
    found = after_a_peak(mib)
    assert memory_in_words(found.deck, found.task("a1")) == words


def test_what_was_learned_is_told_where_the_cards_are_not_known() -> None:
    found = after_a_peak(20 * GIB)
    found.deck.gpus.clear()
    words = "needs 21.0 GiB: peak 20.0 GiB of 1 earlier attempt of its entry plus 5 %"
    assert memory_in_words(found.deck, found.task("a1")) == words


def test_where_cards_differ_in_their_profile_what_one_taught_is_not_used_for_another() -> None:
    small_and_large = (CardWork("80GiB", 80 * GIB, Work("large")), CardWork("40GiB", 40 * GIB, Work("small")))
    tasks = [spec(f"a{index}", gpu_memory_mib="auto", cards=small_and_large) for index in range(3)]

    def two() -> list[Gpu]:
        made = cards(2, slots=4, total_mib=80 * GIB)
        made[1].total_mib = 40 * GIB
        return made

    found = World(deck_file(tasks), two)
    found.begin()
    assert found.running() == {"a0": (0,), "a1": (1,)}
    found.proc("a0").used_mib = 8 * GIB
    found.advance(60)
    found.sample()
    found.end("a0")
    assert found.running() == {"a1": (1,), "a2": (0,)}
    assert task_reserves(found, "a2") == 80 * GIB
    assert [found.launched[-1].card_mib, found.launched[1].card_mib] == [80 * GIB, 40 * GIB]
    words = "alone on its card: gpu_profile makes other work of it by card"
    assert memory_in_words(found.deck, found.task("a2")) == words


def test_where_a_profile_means_all_cards_what_one_taught_is_used_on_the_others() -> None:
    small_and_large = (CardWork("80GiB", 80 * GIB, Work("large")), CardWork("40GiB", 40 * GIB, Work("small")))
    found = world(*(spec(f"a{n}", gpu_memory_mib="auto", cards=small_and_large) for n in range(2)), total_mib=80 * GIB)
    found.proc("a0").used_mib = 8 * GIB
    found.advance(60)
    found.sample()
    found.end("a0")
    assert task_reserves(found, "a1") == int(8 * GIB + 512)


def test_its_own_earlier_attempts_are_counted() -> None:
    found = after_a_peak(10 * GIB)
    for mib in (11 * GIB, 10 * GIB):
        found.proc("a1").used_mib = mib
        found.advance(60)
        found.sample()
        found.end("a1")
        found.verb("retry", "a1")
    words = "needs 11.5 GiB: peak 11.0 GiB of 2 earlier attempts plus 5 %"
    assert memory_in_words(found.deck, found.task("a1")) == words


def test_after_an_out_of_memory_end_it_is_told_that_half_as_much_again_is_asked_for() -> None:
    found = after_a_peak(10 * GIB)
    found.oom("a1")
    words = "needs 15.8 GiB: 1.5 times what it ran out of memory with"
    assert memory_in_words(found.deck, found.task("a1")) == words


def test_why_it_waits_tells_where_the_memory_that_it_needs_comes_from() -> None:
    found = after_a_peak(20 * GIB, spec("a2", gpu_memory_mib="auto", needs=("go",)), spec("go", gpus=0))
    found.proc("a1").used_mib = 70 * GIB
    found.sample()
    found.end("go")
    assert [item.text for item in explain(found.deck, found.task("a2"), found.now)] == [
        "GPU 0: 10.0 GiB free, needs 21.0 GiB (peak 20.0 GiB of 1 earlier attempt of its entry plus 5 %)"
    ]


def test_why_it_waits_says_nothing_of_its_own_peak_where_another_is_alone() -> None:
    found = shared(spec("b", exclusive=True), spec("a", gpu_memory_mib="auto"))
    assert [item.text for item in explain(found.deck, found.task("a"), found.now)] == [
        "GPU 0: the task on it wants it alone"
    ]


def test_why_it_waits_tells_that_its_memory_is_not_known_yet() -> None:
    found = shared(spec("b"), spec("a", gpu_memory_mib="auto"))
    assert [item.text for item in explain(found.deck, found.task("a"), found.now)] == [
        "GPU 0: wanted alone, 1 on it (until a peak is known)"
    ]


def test_a_task_that_says_how_much_gpu_memory_it_needs_is_told_with_that() -> None:
    found = world(spec("a", gpu_memory_mib=11_469), begin=False)
    assert memory_in_words(found.deck, found.task("a")) == "needs 11.2 GiB"


def test_where_others_do_not_matter_their_memory_still_does() -> None:
    tasks = [spec("a", gpu_memory_mib=60 * GIB), spec("b")]

    def unread() -> list[Gpu]:
        return cards(1, slots=2, total_mib=80 * GIB, unread=True)

    found = World(deck_file(tasks, DeckSettings(foreign="ignore")), unread)
    found.begin()
    assert found.running() == {"b": (0,)}
    found.strangers["GPU-0"] = (i.Process(1, 30 * GIB, graphics=True),)
    found.end("b")
    found.sample()
    assert [each.text for each in explain(found.deck, found.task("a"), found.now)] == [
        "GPU 0: 50.0 GiB at most, needs 60.0 GiB"
    ]
    found.strangers.clear()
    found.advance(10)
    found.sample()
    assert found.running() == {"a": (0,)}


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
    assert (gpu.others_mib, gpu.foreign) == (0, None)


def test_memory_that_the_driver_does_not_tell_is_that_of_the_only_task_on_the_card() -> None:
    found = shared(spec("a"))
    found.advance(1)
    silent = (i.Process(100, None, found.proc("a").token),)
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 80 * GIB, 50 * GIB, processes=silent),)))
    gpu = found.deck.gpus["GPU-0"]
    assert [attempt.measured for attempt in gpu.holders.values()] == [{"GPU-0": 50 * GIB}]
    assert gpu.foreign is None


def test_memory_that_the_driver_does_not_tell_is_that_of_the_tasks_that_share_the_card_and_nobody_elses() -> None:
    found = shared(spec("a"), spec("b"))
    found.advance(1)
    silent = tuple(i.Process(pid, None, found.proc(name).token) for pid, name in enumerate("ab", 100))
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 80 * GIB, 50 * GIB, processes=silent),)))
    gpu = found.deck.gpus["GPU-0"]
    assert [attempt.measured for attempt in gpu.holders.values()] == [{"GPU-0": 25 * GIB}, {"GPU-0": 25 * GIB}]
    assert (gpu.others_mib, gpu.foreign) == (0, None)


def test_a_big_task_waits_for_a_card_that_is_big_enough() -> None:
    found = shared(spec("a", gpu_memory_mib=70 * GIB), spec("b", gpu_memory_mib=20 * GIB))
    assert found.running() == {"a": (0,)}


def test_a_task_that_says_nothing_takes_no_share_of_what_is_reserved() -> None:
    found = shared(spec("a", gpu_memory_mib=65 * GIB), spec("b"))
    assert found.running() == {"a": (0,)}
    assert [item.text for item in explain(found.deck, found.task("b"), found.now)] == [
        "GPU 0: 15.0 GiB not reserved, its share is 20.0 GiB"
    ]
    found.end("a")
    assert found.running() == {"b": (0,)}


def test_tasks_that_say_nothing_share_a_card_whatever_they_use() -> None:
    found = shared(*[spec(f"a{index}") for index in range(4)], begin=False)
    found.strangers["GPU-0"] = (i.Process(1, 2 * GIB, user="x", graphics=True),)
    found.sample()
    found.begin()
    assert len(found.running()) == 4
