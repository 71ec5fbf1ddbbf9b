"""A task that can be gone on from makes way for one that is wanted now: who is taken, and what becomes of it."""

from __future__ import annotations

import pytest
from core_edits import EditedWorld, with_tasks
from core_restored import assert_restores
from core_world import World, cards, deck_file, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Launch, Stop, Warn
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.preempt import Place, Want, candidates, cheapest, offer, want, work_lost_s
from gpudeck.engine.core.spec import DeckSettings, Halt, Resume, TaskSpec
from tests.inside.core import describe

ON = Resume("python train.py --resume", ("/ckpt",))


def able(name: str, **more: object) -> TaskSpec:
    """One that goes on from its checkpoint."""
    return spec(name, resume=ON, **more)


def urgent(name: str, **more: object) -> TaskSpec:
    return spec(name, next=True, priority=1001, **more)


def token(found: World, name: str) -> str:
    attempt = found.task(name).attempt()
    assert attempt is not None
    return attempt.token


def preempt(found: World, *names: str, by: str = "eval") -> list[str]:
    asked = i.Preempt(tuple(token(found, name) for name in names), by)
    found.give(asked)
    return asked.did


def able_names(found: World) -> list[str]:
    return sorted(task.name for task, _ in candidates(found.deck))


def had(found: World, *, whole: bool = False, **lost_s: float) -> list[tuple[str, ...]]:
    """Who would have to end for each place, the cheapest first. By name, what each would lose."""
    by_token = {token(found, name): lost for name, lost in lost_s.items()}
    offers = sorted(offer(found.deck, by_token, whole=whole).places, key=lambda place: place.lost_s)
    return [tuple(sorted(place.tasks)) for place in offers]


def coming(found: World) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return offer(found.deck, {}, whole=False).coming, offer(found.deck, {}, whole=True).coming


# -- who is taken -----------------------------------------------------------------------------------------------------


def place(name: str, lost_s: float, priority: int = 0, *gpus: str) -> Place:
    return Place(frozenset(gpus or (f"GPU-{name}",)), (name,), (name,), lost_s, priority)


def taken(*found: Place, gpus: str = "abcd", count: int = 1) -> list[str]:
    return [each.tasks[0] for each in cheapest(found, [f"GPU-{each}" for each in gpus], count)]


def test_the_task_that_loses_least_work_is_taken() -> None:
    assert taken(place("a", 90.0), place("b", 20.0), place("c", 40.0)) == ["b"]


def test_of_equal_losses_the_lowest_priority_is_taken() -> None:
    assert taken(place("a", 20.0, 5), place("b", 20.0, 1), place("c", 20.0, 3)) == ["b"]


def test_nobody_is_taken_whose_gpu_the_urgent_task_could_not_have() -> None:
    assert taken(place("a", 90.0), place("b", 20.0), gpus="a") == ["a"]
    assert taken(place("a", 90.0), gpus="b") == []


def test_a_task_on_two_gpus_takes_the_place_of_two_or_of_none() -> None:
    assert taken(place("a", 90.0), place("b", 20.0), place("c", 40.0), count=2) == ["b", "c"]
    assert taken(place("a", 90.0), place("b", 20.0), count=3) == []


def test_one_task_on_two_gpus_frees_both() -> None:
    assert taken(place("a", 10.0, 0, "GPU-a", "GPU-b"), place("c", 20.0), count=2) == ["a"]


def test_a_task_without_a_checkpoint_loses_all_and_is_never_taken() -> None:
    found = world(able("a"))
    task = found.task("a")
    attempt = task.attempt()
    assert attempt is not None
    found.advance(100.0)
    assert work_lost_s(task, attempt, None, found.wall) is None
    assert work_lost_s(task, attempt, attempt.wall - 5.0, found.wall) is None, "a file of before is none of its own"
    assert work_lost_s(task, attempt, attempt.wall + 70.0, found.wall) == 30.0
    assert had(found) == []


def test_a_task_that_goes_on_from_an_old_checkpoint_loses_what_it_has_done_since() -> None:
    found = world(able("a", retries=1))
    found.end("a", 1)
    found.advance(60.0)
    task = found.task("a")
    attempt = task.attempt()
    assert attempt is not None
    before = attempt.wall - 500.0
    found.advance(20.0)
    assert work_lost_s(task, attempt, before, found.wall) == pytest.approx(found.wall - attempt.wall)


def test_only_what_has_a_resume_command_with_a_condition_can_be_taken() -> None:
    found = world(
        able("a"), spec("plain"), spec("always", resume=Resume("again", ())), able("first", next=True), gpus=4
    )
    assert able_names(found) == ["a"]


def test_what_has_been_edited_to_other_work_since_its_start_is_not_taken() -> None:
    found = world(able("a"))
    found.task("a").spec = able("a", fingerprint="other", position=0)
    assert able_names(found) == []


def test_another_deck_gets_a_card_only_where_all_on_it_can_be_gone_on_from() -> None:
    found = world(able("a"), able("b"), able("c"), spec("plain"), gpus=2, slots=2)
    assert found.running() == {"a": (0,), "b": (1,), "c": (0,), "plain": (1,)}
    assert had(found, a=5.0, b=1.0, c=3.0, whole=True) == [("a", "c")]
    assert had(found, a=5.0, b=1.0, c=3.0) == [("b",), ("c",), ("a",)]
    assert had(found, a=5.0, b=1.0, whole=True) == []


def test_a_place_of_several_costs_what_all_of_them_lose() -> None:
    found = world(able("a"), able("b", priority=7), gpus=1, slots=2)
    (whole,) = offer(found.deck, {token(found, "a"): 5.0, token(found, "b"): 3.0}, whole=True).places
    assert (whole.lost_s, whole.priority, whole.gpus) == (8.0, 7, frozenset({"GPU-0"}))


# -- what the urgent task waits for -----------------------------------------------------------------------------------


def wanted(found: World, name: str = "eval") -> Want | None:
    return want(found.deck, found.task(name), found.now)


def test_a_queued_task_wants_the_gpus_that_tasks_of_its_deck_are_on() -> None:
    found = world(able("a"), able("b"), spec("eval", gpu_ids=("1",)), gpus=2)
    assert wanted(found) == Want(1, ("GPU-1",), 0)


def test_a_queued_task_wants_the_gpus_that_other_decks_have() -> None:
    found = world(urgent("eval", gpus=2), gpus=2, begin=False)
    found.elsewhere = {"GPU-0": "deck sweep of alice has it (engine 1)"}
    found.sample()
    found.begin()
    found.sample()
    assert wanted(found) == Want(2, ("GPU-0", "GPU-1"), 1001, ("GPU-1",), ("GPU-0",))


def test_what_is_kept_free_for_others_is_not_kept_for_a_task_on_several() -> None:
    found = world(able("a"), spec("eval", gpus=2), gpus=3, settings=DeckSettings(keep_free=1))
    assert wanted(found) == Want(2, ("GPU-0", "GPU-1", "GPU-2"), 0, ("GPU-1",))


@pytest.mark.parametrize(
    "found",
    [
        world(able("a"), spec("eval", needs=("a",))),
        world(spec("eval")),
        world(able("a"), spec("eval", gpus=0)),
        world(able("a"), spec("eval"), on_cpu=True),
    ],
    ids=["it waits for a task", "it runs", "it needs none", "there are none"],
)
def test_no_gpu_would_help_a_task_now_that(found: World) -> None:
    assert wanted(found) is None


def test_no_gpu_would_help_a_task_of_a_paused_deck() -> None:
    found = world(able("a"), spec("eval"))
    found.verb("pause")
    assert wanted(found) is None


def test_a_task_that_is_next_counts_those_that_are_so_before_it() -> None:
    found = world(able("a"), able("b"), urgent("e1"), urgent("e2"), spec("eval"), gpus=2, begin=False)
    found.verb("priority", "a", "b", value=2000)
    found.begin()
    assert found.running() == {"a": (0,), "b": (1,)}
    assert [each and each.count for each in (wanted(found, "e1"), wanted(found, "e2"))] == [1, 2]


def test_what_makes_way_already_is_told_until_it_has_gone() -> None:
    found = world(able("a"), able("b"), gpus=1, slots=2)
    assert coming(found) == ((), ())
    preempt(found, "a")
    assert coming(found) == (("GPU-0",), ()), "for a slot, and for the whole card"
    preempt(found, "b")
    assert coming(found) == (("GPU-0", "GPU-0"), ("GPU-0",))
    found.end("a", 143)
    found.end("b", 143)
    assert coming(found) == ((), ())


# -- what becomes of it -----------------------------------------------------------------------------------------------


def test_a_task_that_makes_way_is_stopped_and_queued_again_at_once_at_no_cost() -> None:
    found = world(able("a", retries=0), spec("later"))
    assert preempt(found, "a") == ["a"]
    assert found.phase("a") == "stopping"
    found.end("a", 143)
    fact = found.of(e.AttemptEnded)[0]
    assert isinstance(fact, e.AttemptEnded)
    assert (fact.next, fact.charged, describe(fact.outcome)) == ("queued", False, "preempted: eval took its place")
    assert found.running() == {"a": (0,)}, "it has kept its place, before what is behind it in the file"
    assert [launch.may_resume for launch in found.launched] == [False, True]
    assert found.task("a").retries_used == 0
    assert not found.task("a").avoid
    assert_restores(found)


def test_what_waits_for_its_place_is_told_who_makes_way() -> None:
    found = world(able("a"), spec("eval"), gpus=1)
    preempt(found, "a")
    assert next(told.text for told in explain(found.deck, found.task("eval"), found.now)) == "a makes way for it"


def test_the_urgent_task_goes_before_the_one_that_made_way() -> None:
    found = world(able("a", priority=900), spec("eval"))
    found.verb("priority", "eval", value=1001)
    preempt(found, "a")
    found.end("a", 143)
    assert found.running() == {"eval": (0,)}
    found.end("eval")
    assert found.running() == {"a": (0,)}


def test_it_is_warned_first_and_stopped_half_a_minute_later_at_the_latest() -> None:
    found = world(able("a", warn_signal="USR1", warn_before_s=300.0, grace_s=20.0))
    preempt(found, "a")
    assert [type(each) for each in found.effects if isinstance(each, (Warn, Stop))] == [Warn]
    found.advance(29.0)
    assert found.phase("a") == "stopping"
    assert not [each for each in found.effects if isinstance(each, Stop)]
    found.advance(1.5)
    assert [each.grace_s for each in found.effects if isinstance(each, Stop)] == [20.0]


def test_an_engine_that_is_killed_meanwhile_neither_forgets_nor_repeats_it() -> None:
    for warned in (False, True):
        found = world(able("a", grace_s=20.0, **({"warn_signal": "USR1"} if warned else {})))
        preempt(found, "a")
        found.advance(5.0)
        found.effects.clear()
        found.restart()
        assert found.phase("a") == "stopping"
        assert able_names(found) == []
        found.advance(26.0 if warned else 0.0)
        assert [each.grace_s for each in found.effects if isinstance(each, Stop)] == [20.0 if warned else 15.0]
        found.end("a", 143)
        assert [fact.next for fact in found.of(e.AttemptEnded)] == ["queued"]  # pyright: ignore
        found.restart()
        assert found.phase("a") == "running"
        assert len(found.of(e.StopRequested)) == 1


def test_one_that_ends_by_itself_in_the_very_moment_is_done() -> None:
    found = world(able("a"))
    gone = token(found, "a")
    found.leader_exits(found.proc("a"), 0)
    asked = i.Preempt((gone,), "eval")
    found.give(asked)
    assert asked.did == []
    found.tree_goes(found.proc("a"))
    found.settle()
    assert found.phase("a") == "succeeded"


def test_two_that_come_at_once_do_not_take_the_same() -> None:
    found = world(able("a"), able("b"), gpus=2)
    first, second = i.Preempt((token(found, "a"),), "eval-1"), i.Preempt((token(found, "a"),), "eval-2")
    found.give(first, second)
    assert (first.did, second.did) == (["a"], [])
    assert preempt(found, "b", by="eval-2") == ["b"]


def test_of_a_card_with_two_tasks_both_are_stopped_or_none() -> None:
    found = world(able("a"), able("b"), gpus=1, slots=2)
    both = (token(found, "a"), token(found, "b"))
    preempt(found, "a", by="other")
    asked = i.Preempt(both, "eval")
    found.give(asked)
    assert (asked.did, found.phase("b")) == ([], "running")


def test_one_that_the_user_cancels_while_it_makes_way_is_cancelled() -> None:
    found = world(able("a"))
    preempt(found, "a")
    found.verb("cancel", "a")
    found.end("a", 143)
    assert found.phase("a") == "cancelled"


def test_one_that_makes_way_takes_no_part_in_a_halt() -> None:
    found = world(able("a"), able("b"), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=1)))
    preempt(found, "a", "b")
    found.end("a", 143)
    found.end("b", 143)
    assert not found.deck.run.halted
    assert found.running() == {"a": (0,), "b": (1,)}


def test_one_that_makes_way_soon_is_no_sign_of_a_broken_gpu() -> None:
    found = world(able("a1"), able("a2"), gpus=2, settings=DeckSettings(gpu_quarantine=1))
    found.advance(70.0)
    for _ in range(3):
        preempt(found, "a1")
        found.end("a1", 143)
    assert found.running() == {"a1": (0,), "a2": (1,)}


def test_an_edit_of_the_file_does_not_make_the_stop_be_forgotten() -> None:
    found = EditedWorld(deck_file((able("a", warn_signal="USR1"),)), lambda: cards(1), cores=8, on_cpu=False)
    found.begin()
    preempt(found, "a")
    found.edit(with_tasks(found.file, able("a", warn_signal="USR1", priority=5), spec("b")))
    found.advance(31.0)
    assert [each.token for each in found.effects if isinstance(each, Stop)] == [token(found, "a")]


def test_in_a_halted_run_it_waits_for_the_next() -> None:
    found = world(able("a"), spec("bad"), gpus=2, settings=DeckSettings(halt=Halt("soon", fail=1)))
    preempt(found, "a")
    found.end("bad", 1)
    found.end("a", 143)
    assert found.phase("a") == "waiting"


def test_it_is_taken_as_often_as_it_has_a_checkpoint() -> None:
    found = world(able("a"))
    for _ in range(6):
        preempt(found, "a")
        found.end("a", 143)
    assert found.phase("a") == "running"
    assert len([each for each in found.effects if isinstance(each, Launch)]) == 7
