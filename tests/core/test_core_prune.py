"""What is lost among its peers is stopped early: the rule, and what becomes of a task that it has stopped."""

from __future__ import annotations

import math

import pytest
from core_restored import assert_restores
from core_world import World, spec, world
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Launch, Stop
from gpudeck.engine.core.prune import judged
from gpudeck.engine.core.spec import DeckSettings, Extras, Halt, Prune, Resume

VALUES = st.none() | st.floats(allow_nan=False)
METRICS = st.sampled_from(["loss:min", "acc:max"])
RULES = st.builds(Prune, METRICS, st.just("median"), keep=st.integers(2, 5)) | st.builds(
    Prune, METRICS, st.just("asha"), keep=st.floats(0.01, 0.99)
)
MEDIAN = Extras(prune=Prune("loss:min", at=(0.25, 0.5), keep=3))


# -- the rule ---------------------------------------------------------------------------------------------------------


@given(RULES, st.lists(VALUES, min_size=1))
def test_the_best_is_never_lost(prune: Prune, values: list[float | None]) -> None:
    numbers = [value for value in values if value is not None]
    best = (max if prune.is_max else min)(numbers) if numbers else None
    assert judged(prune, best, values) is None


@given(RULES, VALUES, st.lists(VALUES), st.randoms())
def test_in_which_order_peers_arrived_does_not_matter(prune: Prune, own: float | None, peers: list, random) -> None:
    before = judged(prune, own, peers)
    random.shuffle(peers)
    assert judged(prune, own, peers) == before


@given(RULES, st.floats(allow_nan=False, allow_infinity=False), st.lists(VALUES))
def test_what_is_no_number_is_lost_where_any_number_is(prune: Prune, own: float, peers: list) -> None:
    if judged(prune, own, peers) is not None:
        assert judged(prune, None, peers) is not None
        assert judged(prune, math.nan, peers) is not None


def test_the_median_waits_until_enough_peers_have_come_as_far() -> None:
    prune = Prune("loss:min", keep=3)
    assert judged(prune, 9.0, [1.0, 2.0]) is None
    lost = judged(prune, 9.0, [1.0, 2.0, 4.0])
    assert lost is not None
    assert lost.words(prune, 0.25, 9.0) == "loss 9 at 25 %: the median of 3 peers is 2"


def test_asha_lets_its_share_of_all_that_came_go_on() -> None:
    prune = Prune("acc:max", "asha", keep=0.25)
    assert judged(prune, 0.1, [0.2, 0.3]) is None, "three of which a quarter goes on: none can be told"
    assert judged(prune, 0.9, [0.2, 0.3, 0.4]) is None
    lost = judged(prune, 0.35, [0.2, 0.3, 0.4])
    assert lost is not None
    assert lost.words(prune, 0.5, 0.35) == "acc 0.35 at 50 %: the best 25 % of 4 have 0.4 or better"


# -- tasks ------------------------------------------------------------------------------------------------------------


def sweep(*more: object, count: int = 4, extras: Extras = MEDIAN, **keys: object) -> World:
    tasks = [spec(f"a{number}", extras=extras, **keys) for number in range(count)]
    return world(*tasks, *more, gpus=count, settings=DeckSettings(halt=Halt("soon", fail=1)))  # pyright: ignore[reportArgumentType]


def at(found: World, task: str, point: float, value: float | None) -> None:
    found.give(i.ReachedPoint(found.proc(task).token, "loss:min", point, value))


def pruned(found: World) -> World:
    """The last of four is stopped at the first point."""
    for number, value in enumerate([1.0, 2.0, 3.0, 9.0]):
        at(found, f"a{number}", 0.25, value)
    assert found.phase("a3") == "stopping"
    found.end("a3", 143)
    return found


def test_a_task_that_is_lost_is_stopped_and_neither_failed_nor_succeeded() -> None:
    found = pruned(sweep(retries=3))
    outcome = found.task("a3").ended[-1].outcome
    assert found.phase("a3") == "pruned"
    assert (outcome.reason, outcome.detail) == ("pruned", "loss 9 at 25 %: the median of 3 peers is 2")
    assert found.phase("a0") == "running"
    assert not found.deck.run.halted
    assert_restores(found)


def test_a_task_that_was_pruned_ends_well_only_where_it_had_ended_before() -> None:
    found = sweep()
    for number, value in enumerate([1.0, 2.0, 3.0, 9.0]):
        at(found, f"a{number}", 0.25, value)
    found.end("a3", 0)  # it has written its checkpoint
    assert found.phase("a3") == "pruned"


def test_a_round_goes_on_without_it_and_what_needs_it_is_blocked() -> None:
    found = pruned(
        sweep(spec("b", round=1), spec("n", round=1, needs=("a*",)), spec("f", round=1, after=("a3",)), gpus=1)
    )
    for name in ("a0", "a1", "a2"):
        found.end(name)
    assert (found.phase("b"), found.phase("n"), found.phase("f")) == ("running", "blocked", "running")


def test_none_is_judged_by_tasks_that_failed_or_are_other_work() -> None:
    found = sweep()
    for number in range(3):
        at(found, f"a{number}", 0.25, 1.0)
    found.end("a0", 1)
    at(found, "a3", 0.25, 9.0)
    assert found.phase("a3") == "running"


def test_the_best_of_those_that_remain_is_kept() -> None:
    extras = Extras(prune=Prune("loss:min", at=(0.25,), keep=2))
    found = sweep(extras=extras)
    at(found, "a0", 0.25, 1.0)
    at(found, "a1", 0.25, 1.0)
    at(found, "a2", 0.25, 2.0)
    found.end("a2", 143)
    assert found.phase("a2") == "pruned"
    found.verb("cancel", "a0", "a1")
    found.end("a0", 143)
    found.end("a1", 143)
    at(found, "a3", 0.25, 9.0)
    assert found.phase("a3") == "running"


def test_a_retry_goes_on_from_the_checkpoint_and_is_judged_at_its_next_point_only() -> None:
    found = pruned(sweep(resume=Resume("again", ())))
    found.verb("retry", "a3")
    assert found.phase("a3") == "running"
    assert [each.may_resume for each in found.effects if isinstance(each, Launch) and each.task == "a3"] == [
        False,
        True,
    ]
    at(found, "a3", 0.25, 9.0)
    assert found.phase("a3") == "running"
    for number, value in enumerate([1.0, 2.0, 3.0, 9.0]):
        at(found, f"a{number}", 0.5, value)
    assert found.phase("a3") == "stopping"


def test_a_restart_neither_forgets_nor_judges_twice() -> None:
    found = sweep()
    for number, value in enumerate([1.0, 2.0, 3.0, 9.0]):
        at(found, f"a{number}", 0.25, value)
    found.restart()
    assert found.phase("a3") == "stopping"
    assert len([each for each in found.effects if isinstance(each, Stop)]) == 2, "the stop is gone on with"
    found.end("a3", 143)
    found.restart()
    at(found, "a0", 0.25, 99.0)
    assert found.phases() == {"a0": "running", "a1": "running", "a2": "running", "a3": "pruned"}
    assert len(found.of(e.PointReached)) == 4


def test_a_new_run_leaves_it_unless_all_runs_again() -> None:
    found = pruned(sweep())
    for name in ("a0", "a1", "a2"):
        found.end(name)
    assert found.deck.run.ended
    found.begin(("failed", "changed", "stale"))
    assert found.phase("a3") == "pruned"
    found.begin(("all",))
    assert found.phase("a3") == "running"


def test_a_retry_of_it_can_be_taken_back() -> None:
    found = pruned(sweep(spec("b", gpus=4), gpus=1))
    for name in ("a0", "a1", "a2"):
        found.end(name)
    act = found.verb("retry", "a3")
    assert found.phase("a3") == "queued"
    found.undo(act)
    assert found.phase("a3") == "pruned"


@pytest.mark.parametrize("point", [0.3, 0.75])
def test_it_is_judged_at_its_points_only(point: float) -> None:
    found = sweep()
    for number, value in enumerate([1.0, 2.0, 3.0, 9.0]):
        at(found, f"a{number}", point, value)
    assert found.of(e.PointReached) == []
