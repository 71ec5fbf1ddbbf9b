"""GPUs that other decks of the box have."""

from __future__ import annotations

from core_world import World, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Gather, Launch
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import DeckSettings
from gpudeck.engine.core.why_waiting import why_waiting

ALICES = "deck sweep of alice has it (engine 8123)"


def texts(found: World, task: str) -> list[str]:
    return [obstacle.text for obstacle in explain(found.deck, found.task(task), found.now)]


def gathered(found: World) -> list[tuple[str, ...]]:
    return [effect.gpus for effect in found.effects if isinstance(effect, Gather)]


def taken(*tasks: object, gpus: int = 2, others: tuple[int, ...] = (0,), **more: object) -> World:
    """A world in which another deck has some GPUs before anything of this one starts."""
    found = world(*tasks, gpus=gpus, begin=False, **more)  # pyright: ignore[reportArgumentType]
    for index in others:
        found.other_deck(f"GPU-{index}")
    found.sample()
    found.begin()
    return found


def test_nothing_starts_on_a_gpu_of_another_deck() -> None:
    found = taken(spec("a"), spec("b"))
    assert found.running() == {"a": (1,)}


def test_explain_names_the_deck_its_user_and_its_engine() -> None:
    found = taken(spec("a"), gpus=1)
    assert texts(found, "a") == [f"GPU 0: {ALICES}"]


def test_an_idle_deck_says_which_deck_has_the_gpu() -> None:
    found = taken(spec("a"), gpus=1)
    assert why_waiting(found.deck, found.now) == [f"1 queued: GPU 0: {ALICES}"]


def test_a_gpu_that_another_deck_gives_up_is_used_at_the_next_look() -> None:
    found = taken(spec("a"), gpus=1)
    found.elsewhere.clear()
    found.sample()
    assert found.running() == {"a": (0,)}


def test_what_another_deck_leaves_needs_no_quiet_minute() -> None:
    found = taken(spec("a"), gpus=1)
    found.stranger("GPU-0")
    found.sample()
    found.elsewhere.clear()
    found.advance(1.0)
    found.sample()
    found.strangers.clear()
    found.advance(1.0)
    found.sample()
    assert found.running() == {"a": (0,)}


def test_a_stranger_who_stays_after_another_deck_still_gets_his_quiet_minute() -> None:
    found = taken(spec("a"), gpus=1)
    found.stranger("GPU-0")
    found.sample()
    found.elsewhere.clear()
    found.sample()
    found.advance(30.0)
    found.sample()
    found.strangers.clear()
    found.sample()
    assert found.running() == {}


def test_a_refused_claim_is_noted_at_once_and_the_task_goes_elsewhere() -> None:
    found = world(spec("a"), gpus=2, begin=False)
    found.other_deck("GPU-0")
    found.begin()
    assert found.running() == {"a": (1,)}


def test_a_refused_claim_keeps_nothing_else_from_starting() -> None:
    found = world(spec("a"), spec("b"), spec("c", gpus=0), gpus=2, begin=False)
    found.other_deck("GPU-0")
    found.begin()
    assert found.running() == {"b": (1,), "c": ()}


def test_a_refused_claim_is_no_attempt() -> None:
    found = world(spec("a"), gpus=1, begin=False)
    found.other_deck("GPU-0")
    found.begin()
    found.elsewhere.clear()
    found.sample()
    starts = [fact for fact in found.facts if isinstance(fact, e.AttemptStarting)]
    assert [fact.attempt for fact in starts] == [1, 1]
    assert starts[0].token != starts[1].token


def test_a_claim_that_is_refused_again_and_again_is_tried_once_a_look() -> None:
    found = world(spec("a"), gpus=1, begin=False)
    found.other_deck("GPU-0")
    found.begin()
    assert len(found.of(e.StartRevoked)) == 1
    found.give(i.DevicesSampled(found.readings(), None, {}))
    assert len(found.of(e.StartRevoked)) == 2


def test_taking_a_foreign_gpu_does_not_take_it_from_another_deck() -> None:
    found = taken(spec("a"), gpus=1)
    found.give(i.GpuVerb("take", "GPU-0"))
    assert found.running() == {}


def test_a_deck_that_ignores_strangers_still_leaves_other_decks_alone() -> None:
    found = taken(spec("a"), gpus=1, settings=DeckSettings(foreign="ignore"))
    assert found.running() == {}


def test_a_gang_reserves_no_gpus_of_other_decks() -> None:
    found = taken(spec("busy"), spec("gang", gpus=2), gpus=3, others=(0,))
    assert found.kept == ("GPU-1", "GPU-2")


def test_a_gang_that_other_decks_leave_too_few_gpus_reserves_nothing() -> None:
    found = taken(spec("gang", gpus=2), spec("small"), gpus=2, others=(0,))
    assert found.running() == {"small": (1,)}
    assert gathered(found) == []


def test_a_gang_that_wants_more_memory_than_the_host_has_keeps_no_gpus() -> None:
    found = world(spec("busy"), spec("gang", gpus=2, memory_mib=100_000), gpus=2, begin=False)
    found.sample()
    found.begin()
    assert found.running() == {"busy": (0,)}
    assert gathered(found) == []


def test_a_gang_that_waits_for_our_own_tasks_keeps_its_gpus_from_other_decks() -> None:
    found = world(spec("busy"), spec("gang", gpus=2), gpus=2)
    assert found.kept == ("GPU-0", "GPU-1")


def test_gpus_are_kept_no_longer_once_the_gang_runs() -> None:
    found = world(spec("busy"), spec("gang", gpus=2), gpus=2)
    found.end("busy")
    assert found.running() == {"gang": (0, 1)}
    assert gathered(found) == [("GPU-0", "GPU-1"), ()]


def test_a_pause_lets_the_gpus_of_a_waiting_gang_go() -> None:
    found = world(spec("busy"), spec("gang", gpus=2), gpus=2)
    found.verb("pause")
    assert found.kept == ()


def test_a_gang_that_is_cancelled_lets_its_gpus_go() -> None:
    found = world(spec("busy"), spec("gang", gpus=2), gpus=2)
    found.verb("cancel", "gang")
    assert found.kept == ()


def test_what_was_kept_for_a_gang_is_let_go_before_another_task_starts_on_it() -> None:
    """So that it is left to other decks' next tasks, which had asked for it, as what comes free is."""
    found = world(spec("busy"), spec("gang", gpus=2), spec("last", after=("gang",)), gpus=2)
    before = len(found.effects)
    found.verb("cancel", "gang")
    done = [type(effect) for effect in found.effects[before:] if isinstance(effect, (Gather, Launch))]
    assert (found.running()["last"], done) == ((1,), [Gather, Launch])


def test_a_task_on_one_gpu_keeps_none() -> None:
    found = world(spec("busy"), spec("next", exclusive=True), gpus=1)
    assert gathered(found) == []


def test_a_second_slot_counts_as_ours_whatever_the_lock_file_says_of_others() -> None:
    found = taken(spec("a"), spec("b"), gpus=2, others=(0,), slots=2)
    assert found.running() == {"a": (1,), "b": (1,)}


def test_claims_are_no_facts() -> None:
    found = taken(spec("a"), gpus=1)
    before = len(found.facts)
    found.elsewhere["GPU-0"] = "deck other of bob has it (engine 1)"
    found.sample()
    assert len(found.facts) == before


# -- a task that is next -----------------------------------------------------------------------------------------------


def asked_for(found: World) -> list[tuple[str, ...]]:
    return [effect.first for effect in found.effects if isinstance(effect, Gather)]


def test_a_task_that_is_next_asks_other_decks_for_the_gpus_that_it_could_use_until_it_runs() -> None:
    found = taken(spec("n", next=True, gpu_ids=("0", "1")), gpus=3, others=(0, 1, 2))
    assert asked_for(found) == [("GPU-0", "GPU-1")]
    del found.elsewhere["GPU-1"]
    found.sample()
    assert found.running() == {"n": (1,)}
    assert asked_for(found)[-1] == ()


def test_a_task_that_is_next_asks_for_the_gpu_that_it_starts_on_until_it_has_it() -> None:
    found = taken(spec("n", next=True, gpu_ids=("0", "1")), gpus=3, others=(0, 1, 2))
    del found.elsewhere["GPU-1"]
    found.sample()
    assert asked_for(found) == [("GPU-0", "GPU-1"), ("GPU-1",), ()]


def test_a_task_that_is_next_asks_for_no_gpu_that_nobody_could_leave_to_it() -> None:
    found = taken(spec("n", next=True), gpus=2, others=(0,), settings=DeckSettings(gpus="all", foreign="avoid"))
    assert found.running() == {"n": (1,)}
    assert asked_for(found) == []


def test_an_ordinary_task_asks_other_decks_for_nothing() -> None:
    assert asked_for(taken(spec("a"), gpus=1)) == []


def test_a_pause_or_a_hold_takes_back_what_a_task_that_is_next_asks_for() -> None:
    for verb, names in (("pause", ()), ("hold", ("n",)), ("cancel", ("n",))):
        found = taken(spec("n", next=True), gpus=1)
        assert asked_for(found) == [("GPU-0",)]
        found.verb(verb, *names)
        assert asked_for(found)[-1] == (), verb
