"""Which task starts next, and where."""

from __future__ import annotations

from core_restored import assert_restores
from core_world import World, spec, world

from gpudeck.engine.core.queue import Key, Queue, Shape
from gpudeck.engine.core.simulate import simulate
from gpudeck.engine.core.spec import DeckSettings, Resources
from gpudeck.engine.core.urgency import demand_of


def test_twelve_tasks_on_four_gpus_take_them_in_turn() -> None:
    found = world(*[spec(f"t{index:02}") for index in range(12)], gpus=4)
    for name in [f"t{index:02}" for index in range(12)]:
        found.end(name)
    assert [(launch.task, launch.gpus) for launch in found.launched] == [
        (f"t{index:02}", (f"GPU-{index % 4}",)) for index in range(12)
    ]


def test_the_lowest_free_gpu_comes_first() -> None:
    found = world(*[spec(f"a{index}") for index in range(3)], spec("b"), spec("c"), gpus=3)
    found.verb("hold", "b", "c")
    found.end("a2")
    found.end("a1")
    found.verb("release", "b")
    assert found.running() == {"a0": (0,), "b": (1,)}


def test_tasks_are_spread_over_gpus_before_any_gpu_gets_a_second() -> None:
    found = world(*[spec(f"a{index}") for index in range(5)], gpus=4, slots=2)
    assert found.running() == {"a0": (0,), "a1": (1,), "a2": (2,), "a3": (3,), "a4": (0,)}


def test_a_retry_prefers_another_gpu_than_the_one_it_failed_on() -> None:
    found = world(spec("a", retries=1, backoff_s=1.0), gpus=2)
    found.end("a", 1)
    found.advance(5)
    assert found.running() == {"a": (1,)}


def test_a_retry_takes_the_gpu_it_failed_on_when_there_is_no_other() -> None:
    found = world(spec("a", retries=1, backoff_s=1.0))
    found.end("a", 1)
    found.advance(5)
    assert found.running() == {"a": (0,)}


def test_gpu_ids_are_kept_to() -> None:
    found = world(spec("a", gpu_ids=("2", "GPU-1"), gpus=2), gpus=3)
    assert found.running() == {"a": (1, 2)}


def test_higher_priority_starts_first() -> None:
    found = world(spec("a"), spec("b"), spec("c", priority=1))
    assert found.running() == {"c": (0,)}


def test_priority_counts_from_the_first_start_of_a_large_deck() -> None:
    found = world(*[spec(f"a{index}") for index in range(900)], spec("b", priority=1))
    assert found.running() == {"b": (0,)}


def test_what_an_urgent_task_needs_is_urgent_too() -> None:
    found = world(spec("other"), spec("need"), spec("urgent", priority=5, needs=("need",)))
    assert found.running() == {"need": (0,)}


def test_urgency_reaches_through_rounds_of_a_group_and_not_into_others() -> None:
    found = world(
        *[spec(f"b{index}", group="b", priority=5) for index in range(3)],
        spec("a0", group="a"), spec("a1", group="a", round=1), spec("a2", group="a", round=2, priority=10),
    )  # fmt: skip
    assert found.running() == {"a0": (0,)}
    found.end("a0")
    assert found.running() == {"a1": (0,)}


def test_rounds_do_not_order_tasks_of_different_groups() -> None:
    found = world(spec("a0", group="a"), spec("b0", group="b", round=3), spec("c0", group="c"))
    found.end("a0")
    assert found.running() == {"b0": (0,)}


def test_a_priority_given_by_hand_reaches_what_the_task_waits_for() -> None:
    found = world(spec("x"), spec("y"), spec("a"), spec("b", needs=("a",)), spec("c", needs=("b",)))
    found.verb("priority", "c", value=3)
    found.end("x")
    assert found.running() == {"a": (0,)}


def test_a_priority_given_by_hand_to_two_reaches_what_either_waits_for() -> None:
    waiting = [spec("x", needs=("p",)), spec("x2", needs=("p",), priority=9), spec("y", needs=("q",))]
    found = world(spec("hog"), spec("z", priority=3), spec("p"), spec("q"), *waiting)
    found.end(next(iter(found.running())))
    found.verb("priority", "x", "y", value=5)
    while not found.deck.run.ended:
        found.end(next(iter(found.running())))
    started = [launch.task for launch in found.launched]
    assert started.index("q") < started.index("z")


def test_a_priority_taken_back_is_taken_back_everywhere() -> None:
    found = world(spec("x"), spec("y"), spec("a"), spec("b", needs=("a",)))
    found.verb("priority", "b", value=3)
    found.verb("priority", "b", value=0)
    found.end("x")
    assert found.running() == {"y": (0,)}


def test_a_priority_given_by_hand_is_kept_by_the_next_engine() -> None:
    found = world(spec("x"), spec("y"), spec("a"), spec("b", needs=("a",)))
    found.verb("priority", "b", value=3)
    assert_restores(found)
    found.restart()
    found.end("x")
    assert found.running() == {"a": (0,)}


def test_urgency_spreads_through_rounds() -> None:
    tasks = [*[spec(f"a{index}") for index in range(50)], *[spec(f"b{index}", round=1) for index in range(50)]]
    found = world(*tasks, begin=False)
    found.restart()
    found.begin()
    found.verb("priority", "b7", value=4)
    assert {found.task(f"a{index}").effective for index in range(50)} == {4}
    assert all(gate.demand == demand_of(found.deck, gate) for gate in found.deck.gates)


def longest(*names: str, seconds: dict[str, float]) -> World:
    found = world(*[spec(name) for name in names], settings=DeckSettings(order="longest"), begin=False)
    for name, length in seconds.items():
        found.deck.learned.success(f"fp-{name}", length)
    found.begin()
    return found


def test_longest_first_starts_the_longest() -> None:
    assert longest("a", "b", "c", seconds={"a": 10.0, "b": 99.0, "c": 50.0}).running() == {"b": (0,)}


def test_longest_first_starts_what_nothing_is_known_of_before_all() -> None:
    assert longest("a", "b", seconds={"a": 10.0}).running() == {"b": (0,)}


def test_longest_first_takes_the_longest_of_its_entry_for_a_task_that_never_ran() -> None:
    found = world(spec("x0"), spec("x1"), spec("y0"), settings=DeckSettings(order="longest"), begin=False)
    found.deck.learned.success("fp-y0", 50.0)
    found.begin()
    found.advance(100)
    found.end("x0")
    assert found.running() == {"x1": (0,)}


def test_max_parallel_limits_an_entry_and_lets_others_pass() -> None:
    found = world(*[spec(f"a{index}", max_parallel=1) for index in range(3)], spec("b"), gpus=3)
    assert found.running() == {"a0": (0,), "b": (1,)}


def test_cores_that_a_task_asks_for_are_counted() -> None:
    found = world(spec("a", cpus=10), spec("b", cpus=10), spec("c", cpus=6), gpus=3, cores=16)
    assert found.running() == {"a": (0,), "c": (1,)}


def test_a_task_that_asks_for_more_cores_than_there_are_runs_when_none_is_in_use() -> None:
    found = world(spec("a", cpus=64), cores=16)
    assert found.running() == {"a": (0,)}


def test_host_memory_is_admitted_against_what_is_available() -> None:
    found = world(spec("a", memory_mib=30_000), spec("b", memory_mib=30_000), gpus=2, begin=False)
    found.memory_mib = 50_000
    found.sample()
    found.begin()
    assert found.running() == {"a": (0,)}


def test_host_memory_that_others_use_is_waited_for_also_where_nothing_of_ours_runs() -> None:
    found = world(spec("a", memory_mib=30_000), begin=False)
    found.deck.memory_total_mib = 64_000
    found.memory_mib = 20_000
    found.sample()
    found.begin()
    assert found.phase("a") == "queued"
    found.memory_mib = 40_000
    found.sample()
    assert found.phase("a") == "running"


def test_a_task_that_asks_for_nearly_all_memory_runs_when_nothing_else_of_ours_does() -> None:
    found = world(spec("a", memory_mib=63_000), begin=False)
    found.deck.memory_total_mib = 64_000
    found.memory_mib = 62_000
    found.sample()
    found.begin()
    assert found.phase("a") == "running"


def test_many_entries_at_their_limit_do_not_hide_those_behind_them() -> None:
    tasks = [spec(f"{chr(97 + index % 26)}{'x' * (index // 26)}-0", entry=f"e{index}", max_parallel=1, gpus=0)
             for index in range(80)]  # fmt: skip
    again = [spec(f"{task.name}-again", entry=task.entry, max_parallel=1, gpus=0) for task in tasks]
    found = world(*tasks[:70], *again[:70], *tasks[70:], gpus=0, cores=128)
    assert len(found.running()) == 80


def test_when_the_first_in_line_is_cancelled_the_next_starts_at_once() -> None:
    found = world(spec("a", gpus=2), spec("b", gpus=2), spec("c"), gpus=0, on_cpu=True, cores=3)
    assert found.running() == {"a": ()}
    found.verb("cancel", "b")
    assert found.running() == {"a": (), "c": ()}


def test_a_place_that_was_given_up_does_not_come_back_with_a_later_one() -> None:
    queue, shape = Queue(), Shape(Resources(), frozenset(), -1, "")
    queue.put(1, shape, Key(-9, 0.0, 0))
    queue.drop(1)
    queue.put(1, shape, Key(0, 0.0, 0))
    queue.put(2, shape, Key(-5, 0.0, 1))
    assert [place.task for place, _ in queue.heads()] == [2]


def test_a_plan_is_of_attempts_that_end_before_their_timeout() -> None:
    found = world(spec("a", timeout_s=60.0), spec("b", round=1), gpus=1, begin=False)
    planned = simulate(found.deck, lambda _: None)
    assert [item.task for item in planned] == ["a", "b"]
    assert planned[0].end_s < 60.0


def test_longest_first_goes_by_what_an_entry_is_found_to_take_under_way() -> None:
    names = ("a0", "a1", "a2", "b0", "b1", "b2")
    found = world(*[spec(name) for name in names], gpus=2, settings=DeckSettings(order="longest"), begin=False)
    found.begin()
    assert set(found.running()) == {"a0", "a1"}
    found.advance(10)
    found.end("a0")
    found.advance(100)
    found.end("b0")
    found.advance(1000)
    assert set(found.running()) == {"a1", "b1"}
    found.end("a1")
    assert set(found.running()) == {"a2", "b1"}


def test_longest_first_goes_by_the_longest_of_an_entry_not_by_its_median() -> None:
    found = world(spec("b"), spec("a9", entry="a"), begin=False, settings=DeckSettings(order="longest"))
    found.deck.learned.success("fp-b", 60.0)
    for seconds in (10.0, 10.0, 100.0):
        found.task("a9").entry.learn(seconds)
    found.begin()
    assert found.running() == {"a9": (0,)}
