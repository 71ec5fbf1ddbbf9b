"""GPUs that others use, judged by readings that can tell."""

from __future__ import annotations

import pytest
from core_world import World, cards, deck_file, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import DeckSettings
from gpudeck.engine.core.why_waiting import only_a_user_helps

GIB = 1024


def waiting(policy: str = "avoid", *tasks: object, gpus: int = 1) -> World:
    """A deck that has not begun; alice is on GPU 0."""
    settings = DeckSettings(foreign=policy)  # pyright: ignore[reportArgumentType]
    found = world(*(tasks or (spec("a"),)), gpus=gpus, settings=settings, begin=False)  # pyright: ignore[reportArgumentType]
    found.stranger("GPU-0", 10 * GIB)
    found.sample()
    found.begin()
    return found


def test_a_gpu_that_others_use_is_avoided_and_they_are_named() -> None:
    found = waiting()
    assert found.phase("a") == "queued"
    assert [obstacle.text for obstacle in explain(found.deck, found.task("a"), found.now)] == [
        "GPU 0: alice, pid 4711, 10.0 GiB"
    ]


def test_a_gpu_of_which_the_driver_has_not_told_yet_who_uses_it_gets_nothing() -> None:
    found = World(deck_file([spec("a")]), lambda: cards(1, unread=True))
    found.begin()
    assert [obstacle.kind for obstacle in explain(found.deck, found.task("a"), found.now)] == ["unread"]
    found.sample()
    assert found.phase("a") == "running"


def test_a_gpu_that_others_just_left_is_free_after_a_quiet_time() -> None:
    found = waiting()
    found.strangers.clear()
    found.sample()
    assert explain(found.deck, found.task("a"), found.now)[0].kind == "quiet"
    found.advance(61)
    found.sample()
    assert found.phase("a") == "running"


def test_ignore_starts_beside_others() -> None:
    assert waiting("ignore").phase("a") == "running"


def test_a_gpu_that_others_use_is_avoided_also_where_the_memory_would_do() -> None:
    assert waiting("avoid", spec("a", gpu_memory_mib=1 * GIB)).phase("a") == "queued"


@pytest.mark.parametrize(("need", "phase"), [(13 * GIB, "running"), (14 * GIB, "queued"), (None, "queued")])
def test_fit_shares_a_gpu_only_where_the_memory_is_free_now(need: int | None, phase: str) -> None:
    assert waiting("fit", spec("a", gpu_memory_mib=need)).phase("a") == phase


def test_memory_that_others_use_may_come_free_without_the_user() -> None:
    found = waiting("fit", spec("a", gpu_memory_mib=14 * GIB))
    assert [obstacle.kind for obstacle in explain(found.deck, found.task("a"), found.now)] == ["gpu_memory"]
    assert not only_a_user_helps(found.deck, found.now)


def test_a_gpu_that_the_user_takes_is_used_although_others_are_on_it() -> None:
    found = waiting()
    found.give(i.GpuVerb("take", "GPU-0"))
    assert found.phase("a") == "running"


def test_a_drained_gpu_gets_nothing_new_and_its_task_goes_on() -> None:
    found = world(spec("a"), spec("b"))
    found.give(i.GpuVerb("drain", "GPU-0"))
    assert found.phase("a") == "running"
    found.end("a")
    assert found.phase("b") == "queued"
    found.give(i.GpuVerb("enable", "GPU-0"))
    assert found.phase("b") == "running"


def test_a_reading_from_before_our_last_end_does_not_judge() -> None:
    found = world(spec("a"), spec("b"))
    before = i.GpuReading("GPU-0", found.now - 0.5, 24_000, 20_000)
    found.verb("hold", "b")
    found.end("a")
    found.give(i.DevicesSampled((before,)))
    found.verb("release", "b")
    assert found.phase("b") == "running"


def test_memory_that_still_drains_is_nobody_elses() -> None:
    found = world(spec("a"), spec("b"))
    found.verb("hold", "b")
    found.end("a")
    found.advance(2)
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 24_000, 20_000),)))
    found.verb("release", "b")
    assert found.phase("b") == "running"


def test_memory_that_nothing_explains_for_longer_is_foreign() -> None:
    found = world(spec("a"), spec("b"))
    found.verb("hold", "b")
    found.end("a")
    found.advance(6)
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 24_000, 20_000),)))
    found.verb("release", "b")
    assert explain(found.deck, found.task("b"), found.now)[0].kind == "foreign"


def test_a_desktop_is_not_foreign() -> None:
    found = world(spec("a"), begin=False)
    found.strangers["GPU-0"] = (i.Process(1, 3 * GIB, user="me", graphics=True),)
    found.sample()
    found.begin()
    assert found.phase("a") == "running"


def test_a_hidden_process_that_came_after_our_start_is_ours() -> None:
    found = world(spec("a"), slots=2)
    found.advance(1)
    hidden = (i.Process(99, 5 * GIB, visible=False),)
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 24_000, 5 * GIB, processes=hidden),)))
    assert found.deck.gpus["GPU-0"].foreign is None


def test_a_hidden_process_that_was_there_before_is_foreign() -> None:
    found = world(spec("a"), begin=False)
    hidden = (i.Process(99, 5 * GIB, visible=False),)
    found.give(i.DevicesSampled((i.GpuReading("GPU-0", found.now, 24_000, 5 * GIB, processes=hidden),)))
    assert found.deck.gpus["GPU-0"].foreign is not None


def test_somebody_who_joins_stops_nothing_and_is_noted_once() -> None:
    found = world(spec("a"))
    found.advance(10)
    found.stranger("GPU-0", 5 * GIB)
    found.sample()
    found.advance(1)
    found.sample()
    assert found.phase("a") == "running"
    assert [(fact.user, fact.pid) for fact in found.of(e.GpuJoined) if isinstance(fact, e.GpuJoined)] == [
        ("alice", 4711)
    ]


def test_somebody_who_joins_and_whose_name_is_hidden_is_told_as_another_process() -> None:
    found = world(spec("a"))
    found.advance(10)
    found.stranger("GPU-0", 5 * GIB, user="")
    found.sample()
    assert [fact.user for fact in found.of(e.GpuJoined) if isinstance(fact, e.GpuJoined)] == ["another process"]


def test_an_end_out_of_memory_beside_a_newcomer_is_tried_again_uncharged_once() -> None:
    found = world(spec("a"), gpus=2)
    found.advance(10)
    found.stranger("GPU-0", 5 * GIB)
    found.sample()
    found.oom("a")
    assert (found.running(), found.task("a").retries_used) == ({"a": (1,)}, 0)


def test_one_lost_gpu_does_not_hide_the_others() -> None:
    found = world(spec("a"), gpus=2, begin=False)
    found.gone_gpus.add("GPU-0")
    found.sample()
    found.begin()
    assert found.running() == {"a": (1,)}


def test_an_attempt_on_a_lost_gpu_does_not_use_up_the_live_ones() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    found.verb("hold", "b")
    found.end("b")
    found.gone_gpus.add("GPU-0")
    found.advance(1)
    found.sample()
    found.verb("retry", "b")
    found.verb("release", "b")
    assert found.running() == {"a": (0,), "b": (1,)}


def test_a_late_reading_from_before_our_last_end_does_not_judge_either() -> None:
    found = world(spec("a"), spec("b"))
    before = i.GpuReading("GPU-0", found.now - 0.5, 24_000, 20_000)
    found.verb("hold", "b")
    found.end("a")
    found.advance(6)
    found.give(i.DevicesSampled((before,)))
    found.verb("release", "b")
    assert found.phase("b") == "running"


def test_a_second_end_out_of_memory_beside_newcomers_is_final() -> None:
    found = world(spec("a"), gpus=2)
    for gpu in ("GPU-0", "GPU-1"):
        found.advance(10)
        found.stranger(gpu, 5 * GIB)
        found.sample()
        found.strangers.clear()
        found.oom("a")
    assert found.phase("a") == "failed"


def beside_bob(*, bob_mib: int = GIB) -> World:
    """A task that shares GPU 0 with bob, who was there before it."""
    settings = DeckSettings(foreign="fit")
    found = world(spec("a", gpu_memory_mib=4 * GIB, gpu_ids=("0",)), gpus=2, settings=settings, begin=False)
    found.stranger("GPU-0", bob_mib, user="bob")
    found.sample()
    found.begin()
    assert found.running() == {"a": (0,)}
    found.advance(10)
    return found


def test_a_second_stranger_joins_too() -> None:
    found = beside_bob()
    found.strangers["GPU-0"] += (i.Process(5000, 18 * GIB, user="alice"),)
    found.sample()
    found.oom("a")
    assert [fact.user for fact in found.of(e.GpuJoined) if isinstance(fact, e.GpuJoined)] == ["alice"]
    assert (found.phase("a"), found.task("a").attempts) == ("running", 2)


def test_a_stranger_who_takes_much_more_memory_counts_as_one_who_joined() -> None:
    found = beside_bob()
    found.stranger("GPU-0", 15 * GIB, user="bob")
    found.sample()
    found.oom("a")
    assert (found.phase("a"), found.task("a").attempts) == ("running", 2)


def test_a_stranger_who_was_there_before_has_not_joined() -> None:
    found = beside_bob()
    found.sample()
    found.oom("a")
    assert found.of(e.GpuJoined) == []
    assert found.phase("a") == "failed"


def test_strangers_who_come_and_go_are_told_of_once() -> None:
    found = beside_bob()
    for pid in range(5000, 5010):
        found.advance(1)
        found.strangers["GPU-0"] = (found.strangers["GPU-0"][0], i.Process(pid, GIB, user="alice"))
        found.sample()
    assert len(found.of(e.GpuJoined)) == 1


def test_a_hidden_process_from_before_our_start_stays_foreign_beside_our_task() -> None:
    found = world(spec("a"), begin=False, settings=DeckSettings(foreign="ignore"))
    found.strangers["GPU-0"] = (i.Process(99, 5 * GIB, visible=False),)
    found.sample()
    found.advance(1)
    found.begin()
    found.advance(1)
    found.sample()
    gpu = found.deck.gpus["GPU-0"]
    assert found.running() == {"a": (0,)}
    assert (str(gpu.foreign), gpu.others_mib) == ("another process, pid 99, 5.0 GiB", 5 * GIB)


def test_after_a_reboot_what_cards_read_counts_also_where_a_start_was_taken_back() -> None:
    found = world(spec("a"))
    starting = next(place for place, fact in enumerate(found.facts) if isinstance(fact, e.AttemptStarting))
    del found.facts[starting + 1 :]  # the box went down before the engine could start it
    found.procs.clear()
    found.advance(1000)
    found.refuse = 100
    found.restart(reboot=True)
    found.restart()
    found.strangers["GPU-0"] = (i.Process(99, 5 * GIB, user="bob"),)
    found.sample()
    assert str(found.deck.gpus["GPU-0"].foreign) == "bob, pid 99, 5.0 GiB"


def test_before_a_run_begins_anew_after_a_reboot_it_is_known_who_else_is_on_a_gpu() -> None:
    found = world(spec("a"))
    found.advance(1000)
    found.end("a")
    found.restart(reboot=True)
    found.strangers["GPU-0"] = (i.Process(99, 5 * GIB, user="bob"),)
    found.sample()
    found.verb("retry", "a")
    assert found.running() == {}
