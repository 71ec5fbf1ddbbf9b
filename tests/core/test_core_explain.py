"""Why it waits, in words."""

from __future__ import annotations

from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core.explain import explain, why_waiting
from gpudeck.engine.core.spec import DeckSettings


def texts(found: World, name: str) -> list[str]:
    return [obstacle.text for obstacle in explain(found.deck, found.task(name), found.now)]


def test_a_taken_gpu_names_the_task_that_is_on_it() -> None:
    found = world(spec("a"), spec("b"))
    (obstacle,) = explain(found.deck, found.task("b"), found.now)
    assert (obstacle.text, obstacle.tasks) == ("GPU 0: 1 of 1 slots taken", ("a",))


def test_a_task_that_wants_a_gpu_alone_is_named_as_such() -> None:
    found = world(spec("a", exclusive=True), spec("b"), slots=2)
    (obstacle,) = explain(found.deck, found.task("b"), found.now)
    assert (obstacle.text, obstacle.tasks) == ("GPU 0: the task on it wants it alone", ("a",))


def test_a_need_is_named() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    assert texts(found, "b") == ["waits for a"]


def test_a_hold_and_a_pause_are_said() -> None:
    found = world(spec("a"), spec("b"), spec("c"))
    found.verb("hold", "b")
    found.verb("pause")
    assert (texts(found, "b"), texts(found, "c")) == (["held by the user"], ["the deck is paused"])


def test_a_backoff_says_how_long() -> None:
    found = world(spec("a", retries=1, backoff_s=100.0))
    found.end("a", 1)
    (text,) = texts(found, "a")
    assert text.startswith("tried again in ")
    assert text.endswith(" s (exit)")


def test_a_limit_of_the_entry_names_who_runs() -> None:
    found = world(spec("a0", max_parallel=1), spec("a1", max_parallel=1), gpus=2)
    (obstacle,) = explain(found.deck, found.task("a1"), found.now)
    assert (obstacle.text, obstacle.tasks) == ("max_parallel = 1 of a run", ("a0",))


def test_keep_free_is_said() -> None:
    found = world(spec("a"), spec("b"), gpus=2, settings=DeckSettings(keep_free=1))
    assert texts(found, "b")[0] == "1 GPUs are left to others"


def test_every_gpu_of_a_waiting_gang_says_what_keeps_it() -> None:
    found = world(spec("a"), spec("gang", gpus=3), gpus=3)
    found.stranger("GPU-1")
    found.give(e.GpuVerb("drain", "GPU-2"))
    found.sample()
    assert texts(found, "gang") == [
        "needs 3 GPUs at once, 0 are free for it",
        "GPU 0: 1 of 1 slots taken",
        "GPU 1: alice, pid 4711, 9.8 GiB",
        "GPU 2: drained",
    ]


def test_a_lost_gpu_is_said_in_the_drivers_words() -> None:
    found = world(spec("a"), begin=False)
    found.gone_gpus.add("GPU-0")
    found.sample()
    found.begin()
    assert texts(found, "a") == ["GPU 0: lost (GPU is lost)"]


def test_what_runs_or_is_done_waits_for_nothing() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    found.end("a")
    assert (texts(found, "a"), texts(found, "b")) == ([], [])


def test_the_commonest_reasons_are_summed_up() -> None:
    found = world(spec("a"), *[spec(f"b{index}", needs=("a",)) for index in range(3)])
    assert why_waiting(found.deck, found.now) == ["3 waiting: waits for a"]
