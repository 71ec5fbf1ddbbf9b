"""Tasks on several GPUs, and what is held for the head of the queue."""

from __future__ import annotations

from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.devices import mixed_in_words
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.schedule import pick
from gpudeck.engine.core.spec import DeckSettings

GIB = 1024


def learned(found: World, name: str, seconds: float) -> None:
    """Let the deck know how long a task takes."""
    found.deck.learned.success(found.task(name).spec.fingerprint, seconds)


def busy(*tasks: object, gpus: int = 4, **more: object) -> World:
    """GPU 0 is busy with `long`; then comes the gang on all GPUs, then the rest."""
    names = [spec("long"), spec("gang", gpus=gpus), *tasks]
    return world(*names, gpus=gpus, begin=False, **more)  # pyright: ignore[reportArgumentType]


def test_gpus_are_held_for_a_gang_as_they_come_free() -> None:
    found = busy(spec("small"))
    learned(found, "small", 3600.0)
    found.begin()
    assert found.running() == {"long": (0,)}
    found.end("long")
    assert found.running() == {"gang": (0, 1, 2, 3)}


def test_a_small_task_fills_in_where_it_ends_in_time() -> None:
    found = busy(spec("small"))
    learned(found, "long", 3600.0)
    learned(found, "small", 60.0)
    found.begin()
    assert found.running() == {"long": (0,), "small": (1,)}


def test_a_small_task_that_would_end_too_late_does_not_fill_in() -> None:
    found = busy(spec("small"))
    learned(found, "long", 3600.0)
    learned(found, "small", 3700.0)
    found.begin()
    assert found.running() == {"long": (0,)}


def test_beside_a_blocker_of_unknown_length_only_short_tasks_fill_in() -> None:
    found = busy(spec("short"), spec("hour"))
    learned(found, "short", 600.0)
    learned(found, "hour", 3600.0)
    found.begin()
    assert found.running() == {"long": (0,), "short": (1,)}


def test_tasks_of_unknown_length_fill_in_until_the_gang_has_waited_long_enough() -> None:
    found = busy(spec("a"), spec("b"))
    found.begin()
    assert found.running() == {"long": (0,), "a": (1,), "b": (2,)}
    found.verb("hold", "b")
    found.advance(901)
    found.end("a")
    found.verb("cancel", "b")
    found.end("b", 143)
    found.verb("retry", "b")
    found.verb("release", "b")
    assert found.running() == {"long": (0,)}


def test_the_gangs_waiting_time_is_not_forgotten_when_something_more_urgent_starts() -> None:
    found = busy(spec("urgent", priority=5), spec("small"))
    found.verb("hold", "urgent", "small")
    found.begin()
    found.verb("hold", "urgent", "small")
    found.advance(901)
    found.verb("release", "urgent")
    found.end("urgent")
    found.verb("release", "small")
    assert found.phase("small") == "queued"


def test_a_gang_that_cannot_have_enough_gpus_holds_none() -> None:
    found = busy(spec("small"))
    found.stranger("GPU-3")
    found.sample()
    learned(found, "small", 3600.0)
    found.begin()
    assert found.running() == {"long": (0,), "small": (1,)}


def test_higher_priority_takes_held_gpus() -> None:
    found = busy(spec("urgent", priority=1, after=("go",)), spec("go", gpus=0))
    found.begin()
    learned(found, "urgent", 36_000.0)
    found.end("go")
    assert found.running() == {"long": (0,), "urgent": (1,)}


def test_a_gang_never_blocks_cpu_tasks() -> None:
    found = busy(spec("cpu", gpus=0))
    learned(found, "cpu", 36_000.0)
    found.begin()
    assert found.running() == {"cpu": (), "long": (0,)}


def test_a_task_that_wants_its_card_alone_is_not_starved_by_small_ones() -> None:
    found = world(
        *[spec(f"s{index}") for index in range(3)], spec("big", exclusive=True), *[spec(f"t{i}") for i in range(9)],
        slots=4, settings=DeckSettings(gang_patience_s=0.0),
    )  # fmt: skip
    for name in ("s0", "s1", "s2"):
        found.advance(10)
        found.end(name)
    assert found.running() == {"big": (0,)}


def test_a_task_that_wants_its_card_alone_has_waited_since_all_its_slots_were_taken() -> None:
    found = world(spec("a"), spec("b"), spec("big", exclusive=True), spec("small"), slots=2)
    found.advance(901)
    found.end("a")
    assert found.running() == {"b": (0,)}


def test_a_big_task_is_not_starved_by_small_ones_on_the_same_card() -> None:
    small = [spec(f"s{index}", gpu_memory_mib=20 * GIB) for index in range(8)]
    found = world(
        *small[:4], spec("big", gpu_memory_mib=70 * GIB), *small[4:], slots=4, total_mib=80 * GIB,
        settings=DeckSettings(gang_patience_s=0.0),
    )  # fmt: skip
    for name in ("s0", "s1", "s2", "s3"):
        found.advance(10)
        found.end(name)
    assert found.running() == {"big": (0,)}


def test_a_held_gpu_is_explained_with_the_name_of_the_gang() -> None:
    found = busy(spec("small"))
    learned(found, "small", 3600.0)
    found.begin()
    reserved = [item for item in explain(found.deck, found.task("small"), found.now) if item.kind == "reserved"]
    assert [(item.text, item.tasks) for item in reserved] == [
        (f"GPU {index}: held for gang since 0s", ("gang",)) for index in (1, 2, 3)
    ]


def test_what_an_attempt_of_unknown_fate_holds_is_never_expected_back() -> None:
    found = busy(spec("small"))
    learned(found, "long", 10.0)
    learned(found, "small", 800.0)
    found.begin()
    found.restart(unproven=lambda _: True)
    learned(found, "long", 10.0)
    learned(found, "small", 800.0)
    held = pick(found.deck, found.now).reservation
    assert held is not None
    assert held.start == float("inf")


def test_keep_free_leaves_gpus_to_others() -> None:
    found = world(*[spec(f"a{index}") for index in range(4)], gpus=4, settings=DeckSettings(keep_free=1))
    assert found.running() == {"a0": (0,), "a1": (1,), "a2": (2,)}


def test_gpus_that_others_use_count_as_left_to_them() -> None:
    found = world(*[spec(f"a{index}") for index in range(4)], gpus=4, settings=DeckSettings(keep_free=1), begin=False)
    found.stranger("GPU-0")
    found.sample()
    found.begin()
    assert found.running() == {"a0": (1,), "a1": (2,), "a2": (3,)}


def test_with_keep_free_small_tasks_beside_the_held_gpus_do_not_starve_a_gang() -> None:
    settings = DeckSettings(keep_free=2, gang_patience_s=0.0)
    found = world(spec("long"), spec("gang", gpus=4), spec("small"), gpus=6, settings=settings)
    assert found.running() == {"long": (0,)}
    found.end("long")
    assert found.running() == {"gang": (0, 1, 2, 3)}


def test_with_keep_free_a_short_task_fills_in_until_the_gang_may_have_its_gpus() -> None:
    found = world(
        spec("long"), spec("gang", gpus=2), spec("small"), gpus=3, settings=DeckSettings(keep_free=1), begin=False
    )
    learned(found, "long", 3600.0)
    learned(found, "small", 60.0)
    found.begin()
    assert found.running() == {"long": (0,), "small": (1,)}


def test_all_is_every_gpu_that_the_deck_may_use() -> None:
    found = world(spec("a", gpus="all"), gpus=4, settings=DeckSettings(keep_free=1), begin=False)
    found.give(i.GpuVerb("drain", "GPU-1"))
    found.begin()
    assert found.running() == {"a": (0, 2, 3)}


def test_gangs_without_gpus_take_cpu_slots() -> None:
    found = world(spec("a", gpus=3), spec("b", gpus=2), spec("c"), gpus=0, on_cpu=True, cores=16)
    assert found.running() == {"a": ()}
    found.end("a")
    assert found.running() == {"b": (), "c": ()}


def test_without_gpus_a_gpu_task_that_waits_holds_up_no_cpu_task() -> None:
    found = world(spec("a", gpus=3), spec("b", gpus=3), spec("c", gpus=0), gpus=0, on_cpu=True, cores=16)
    assert sorted(found.running()) == ["a", "c"]


def test_a_gang_larger_than_the_cpu_slots_takes_them_all() -> None:
    found = world(spec("a", gpus=8), gpus=0, on_cpu=True, cores=2)
    assert found.running() == {"a": ()}


def test_a_gang_gets_gpus_that_are_near_each_other() -> None:
    links = {0: {1: 1, 2: 3, 3: 1}, 1: {0: 1, 2: 1, 3: 3}, 2: {0: 3, 1: 1, 3: 1}, 3: {0: 1, 1: 3, 2: 1}}
    found = world(spec("gang", gpus=2), gpus=4, links=links)
    assert found.running() == {"gang": (0, 2)}


def test_a_gang_probes_a_quarantined_gpu_when_nothing_smaller_came() -> None:
    found = world(spec("gang", gpus=2), gpus=2, begin=False)
    found.facts.append(e.GpuQuarantined("GPU-1", (), found.now, found.now + 60, 0))
    found.restart()
    found.begin()
    found.advance(100)
    assert found.phase("gang") == "queued"
    found.advance(900)
    assert found.phase("gang") == "running"
    found.advance(61)
    assert found.deck.gpus["GPU-1"].quarantine is None


def with_a_lost_gpu(*tasks: object) -> World:
    """Three GPUs, of which one is left to others; GPU 2 is lost."""
    found = world(*tasks, gpus=3, settings=DeckSettings(keep_free=1), begin=False)  # pyright: ignore[reportArgumentType]
    found.gone_gpus.add("GPU-2")
    found.sample()
    found.begin()
    return found


def test_a_lost_gpu_is_not_one_that_is_left_to_others() -> None:
    found = with_a_lost_gpu(spec("a"), spec("b"))
    assert found.running() == {"a": (0,)}


def test_a_gang_that_keep_free_no_longer_lets_start_holds_none() -> None:
    found = with_a_lost_gpu(spec("gang", gpus=2), spec("small"))
    assert found.running() == {"small": (0,)}


def test_behind_a_task_that_is_overdue_a_short_one_still_fills_in() -> None:
    found = busy(spec("short"), spec("longer"))
    found.verb("hold", "short", "longer")
    learned(found, "long", 100.0)
    learned(found, "short", 15.0)
    learned(found, "longer", 25.0)
    found.begin()
    found.verb("hold", "short", "longer")
    found.advance(200)
    found.verb("release", "short", "longer")
    assert found.running() == {"long": (0,), "short": (1,)}


def test_how_long_a_task_takes_is_told_by_others_of_its_entry() -> None:
    found = busy(spec("small", entry="of"))
    learned(found, "long", 3600.0)
    found.task("small").entry.learn(3700.0)
    found.begin()
    assert found.running() == {"long": (0,)}


def test_how_long_a_task_takes_at_most_is_told_by_its_timeout() -> None:
    found = busy(spec("small", timeout_s=3700.0), spec("short", timeout_s=60.0))
    learned(found, "long", 3600.0)
    found.begin()
    assert found.running() == {"long": (0,), "short": (1,)}


def of_models(*models: str, tasks: tuple[object, ...], **more: object) -> World:
    found = world(*tasks, gpus=len(models), begin=False, **more)  # pyright: ignore[reportArgumentType]
    for gpu, model in zip(found.deck.gpus.values(), models, strict=True):
        gpu.model = model
    return found


def test_a_gang_gets_gpus_of_one_model() -> None:
    found = of_models("A40", "H100", "H100", "A40", "A40", tasks=(spec("gang", gpus=3),))
    found.begin()
    assert found.running() == {"gang": (0, 3, 4)}


def test_of_equal_models_those_that_are_near_each_other_come_first() -> None:
    links = {0: {2: 100}, 2: {0: 100}, 1: {3: 30}, 3: {1: 30}}
    found = of_models("A40", "H100", "H100", "H100", tasks=(spec("gang", gpus=2),), links=links)
    found.begin()
    assert found.running() == {"gang": (1, 3)}


def test_a_gang_that_has_to_be_mixed_starts_all_the_same_and_that_is_told() -> None:
    found = of_models("A40", "H100", "A40", tasks=(spec("gang", gpus=3),))
    found.begin()
    assert found.running() == {"gang": (0, 1, 2)}
    assert mixed_in_words(found.deck.models(("GPU-0", "GPU-1", "GPU-2"))) == "mixed models: A40 and H100"
    assert mixed_in_words(found.deck.models(("GPU-0", "GPU-2"))) == ""


def test_among_very_many_gpus_a_gang_gets_the_first_of_one_model() -> None:
    models = ["A40", *["H100", "A100"] * 7]
    found = of_models(*models, tasks=(spec("gang", gpus=7),))
    found.begin()
    assert found.running() == {"gang": (1, 3, 5, 7, 9, 11, 13)}


def test_among_very_many_gpus_without_enough_of_a_kind_the_first_do() -> None:
    found = of_models(*[f"model {index}" for index in range(14)], tasks=(spec("gang", gpus=2),))
    found.begin()
    assert found.running() == {"gang": (0, 1)}


def test_a_gang_holds_gpus_that_are_near_each_other() -> None:
    links = {0: {2: 100}, 1: {3: 100}, 2: {0: 100}, 3: {1: 100}}
    tasks = [spec("x", gpu_ids=("0",)), spec("y", gpu_ids=("1",)), spec("z", gpu_ids=("2",)), spec("gang", gpus=3)]
    found = world(*tasks, gpus=5, links={**links, 4: {}}, begin=False)
    for name in "xyz":
        learned(found, name, 600.0)
    found.begin()
    held = pick(found.deck, found.now).reservation
    assert held is not None
    assert len(held.gpus & {"GPU-1", "GPU-3"}) == 2


def test_one_gpu_is_chosen_by_the_order_of_the_deck_alone() -> None:
    found = of_models("A40", "H100", tasks=(spec("a"),), links={0: {1: 100}, 1: {0: 100}})
    found.begin()
    assert found.running() == {"a": (0,)}
