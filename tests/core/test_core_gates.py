"""needs, after, rounds, and what --only leaves out."""

from __future__ import annotations

import pytest
from core_world import spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.deck import Success
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import Barrier
from gpudeck.engine.core.step import at_standstill


def test_needs_wait_for_success() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), gpus=2)
    assert found.phases() == {"a": "running", "b": "waiting"}
    found.end("a")
    assert found.phase("b") == "running"


def test_a_failed_need_blocks_all_that_builds_on_it() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), spec("c", needs=("b",)))
    found.end("a", 1)
    assert found.phases() == {"a": "failed", "b": "blocked", "c": "blocked"}


def test_after_starts_once_a_blocked_task_is_settled() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), spec("c", after=("b",)))
    found.end("a", 1)
    assert found.phase("c") == "running"


def test_after_waits_through_the_retries() -> None:
    found = world(spec("a", retries=1), spec("b", after=("a",)))
    found.end("a", 1)
    assert found.phase("b") == "waiting"


def test_a_run_in_which_the_rest_is_blocked_ends() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    found.end("a", 1)
    assert found.deck.run.ended


def test_a_glob_never_means_the_task_that_has_it() -> None:
    found = world(spec("a1"), spec("a2", after=("a*",)), gpus=2)
    found.end("a1")
    assert found.phase("a2") == "running"


def test_tasks_that_wait_for_each_other_are_a_standstill_not_a_hang() -> None:
    found = world(spec("a", after=("b",)), spec("b", after=("a",)))
    assert (found.deck.run.ended, at_standstill(found.deck)) == (False, True)


def test_a_deck_with_only_held_tasks_left_is_at_a_standstill() -> None:
    found = world(spec("a"), spec("b"))
    found.verb("hold", "b")
    found.end("a")
    assert (found.deck.run.ended, at_standstill(found.deck)) == (False, True)


def test_a_round_waits_for_the_round_before() -> None:
    found = world(spec("a"), spec("b"), spec("c", round=1), gpus=3)
    found.end("a")
    assert found.phase("c") == "waiting"
    found.end("b")
    assert found.phase("c") == "running"


def test_rounds_of_different_groups_do_not_wait_for_each_other() -> None:
    found = world(spec("a", group="x"), spec("b", group="y", round=1), gpus=2)
    assert found.phase("b") == "running"


def test_a_failure_closes_all_later_rounds() -> None:
    found = world(spec("a"), spec("b", round=1), spec("c", round=2))
    found.end("a", 1)
    assert found.phases() == {"a": "failed", "b": "blocked", "c": "blocked"}


def test_a_round_that_only_waits_for_ends_opens_after_a_failure() -> None:
    found = world(spec("a"), spec("b", round=1, barrier="ended"))
    found.end("a", 1)
    assert found.phase("b") == "running"


def test_a_cancelled_task_does_not_hold_up_the_next_round() -> None:
    found = world(spec("a"), spec("b"), spec("c", round=1), gpus=2)
    found.verb("cancel", "a")
    found.end("a", 143)
    found.end("b")
    assert found.phase("c") == "running"


def test_a_cancelled_need_blocks() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    found.verb("cancel", "a")
    found.end("a", 143)
    assert found.phase("b") == "blocked"


def test_a_retry_makes_later_rounds_wait_again_and_lets_go_on_what_runs() -> None:
    found = world(spec("a"), spec("b", round=1), spec("c", round=1))
    found.end("a")
    found.verb("retry", "a")
    assert found.phases() == {"a": "queued", "b": "running", "c": "waiting"}


def test_a_mended_need_opens_what_it_blocked() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), spec("c", needs=("b",)))
    found.end("a", 1)
    found.verb("retry", "a")
    found.end("a")
    found.end("b")
    assert found.phase("c") == "running"


def test_a_task_interrupted_while_its_need_runs_again_waits_for_it() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), gpus=2)
    found.end("a")
    found.verb("retry", "a")
    found.give(i.Shutdown(True, "INT"))
    found.restart()
    assert (found.phase("a"), found.phase("b")) == ("running", "waiting")


def test_rounds_count_only_selected_tasks() -> None:
    found = world(spec("a"), spec("b", round=1), selected=["b"])
    assert found.phase("b") == "running"


def test_a_need_left_out_blocks_and_is_named() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), selected=["b"])
    assert found.phase("b") == "blocked"
    assert explain(found.deck, found.task("b"), found.now)[-1].text == (
        "needs a, left out by --only, --exclude or --limit"
    )


def test_a_need_left_out_that_is_done_satisfies() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    found.end("a")
    found.verb("cancel", "b")
    found.end("b", 143)
    found.restart(file=type(found.file)(**{**vars_of(found.file), "selected": frozenset({"b"})}))
    found.begin(("failed", "cancelled"))
    assert found.phase("b") == "running"


def vars_of(file: object) -> dict[str, object]:
    return {name: getattr(file, name) for name in type(file).__dataclass_fields__}


def test_after_something_left_out_does_not_wait() -> None:
    found = world(spec("a"), spec("b", after=("a",)), selected=["b"])
    assert found.phase("b") == "running"


def test_a_left_out_task_never_starts_even_when_the_user_retries_it() -> None:
    found = world(spec("a"), spec("b"), gpus=2, selected=["b"])
    found.verb("retry", "a")
    assert found.running() == {"b": (0,)}


def test_what_a_closed_round_waits_for_is_named() -> None:
    found = world(spec("train-asym-3"), spec("b", round=1))
    found.verb("hold", "b")
    found.end("train-asym-3", 1)
    found.verb("retry", "b")
    texts = [obstacle.text for obstacle in explain(found.deck, found.task("b"), found.now)]
    assert "round 0 closed by 1 failed: train-asym-3" in texts


@pytest.mark.parametrize(("done", "phase"), [(True, "running"), (False, "blocked"), (None, "running")])
def test_what_the_engine_found_of_a_left_out_task_goes_before_what_the_journal_says(
    done: bool | None, phase: str
) -> None:
    found = world(spec("a", outputs=("/out",)), spec("b", needs=("a",)), selected=["b"], begin=False)
    found.deck.successes["a"] = Success(0.0, "a", 1, "fp-a")
    found.task("a").left_out_done = done
    found.begin()
    assert found.phase("b") == phase


def test_without_a_success_the_outputs_of_a_left_out_task_may_tell() -> None:
    found = world(spec("a", outputs=("/out",)), spec("b", needs=("a",)), selected=["b"], begin=False)
    found.task("a").left_out_done = True
    found.begin()
    assert found.phase("b") == "running"


def test_tasks_that_wait_for_the_same_share_a_gate() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), spec("c", needs=("a",)))
    assert found.task("b").gates[0] is found.task("c").gates[0]


@pytest.mark.parametrize("barriers", [("ended", "succeeded"), ("succeeded", "ended")])
def test_gates_stand_in_the_order_of_the_file_whatever_the_hash_seed(barriers: tuple[Barrier, Barrier]) -> None:
    one, other = barriers
    found = world(spec("a", barrier=one), spec("b", round=1, barrier=one), spec("c", round=1, barrier=other))
    kinds = {"succeeded": "round", "ended": "round ended"}
    assert [gate.kind for gate in found.deck.gates] == [kinds[one], kinds[other]]
