"""Retries by hand, with their options and what is downstream."""

from __future__ import annotations

from core_world import World, done_world, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import DeckSettings, Halt, Resume


def test_a_retry_resumes_what_did_not_come_to_its_end() -> None:
    found = world(spec("a", resume=Resume("again", ())))
    found.end("a", 1)
    found.verb("retry", "a")
    assert found.launched[-1].may_resume


def test_a_fresh_retry_resumes_nothing() -> None:
    found = world(spec("a", resume=Resume("again", ())))
    found.end("a", 1)
    found.verb("retry", "a", fresh=True)
    assert not found.launched[-1].may_resume


def test_what_a_fresh_retry_left_is_resumed_by_the_next_try() -> None:
    found = world(spec("a", resume=Resume("again", ()), retries=1))
    found.end("a", 1)
    found.verb("retry", "a", fresh=True)
    found.end("a", 1)
    found.advance(60)
    assert found.launched[-1].may_resume


def test_a_fresh_retry_is_still_fresh_after_a_restart() -> None:
    found = world(spec("a", resume=Resume("again", ())), spec("b"))
    found.verb("cancel", "a")
    found.end("a", 143)
    found.verb("retry", "a", fresh=True)
    found.restart()
    found.end("b")
    assert (found.launched[-1].task, found.launched[-1].may_resume) == ("a", False)


def test_the_environment_of_a_retry_reaches_all_its_attempts() -> None:
    found = world(spec("a", retries=1))
    found.end("a", 1)
    found.verb("retry", "a", env=(("BS", "8"),))
    found.end("a", 1)
    found.restart()
    found.advance(60)
    assert [launch.env for launch in found.launched] == [(), (("BS", "8"),), (("BS", "8"),)]


def test_the_environment_of_a_retry_ends_with_the_next_one() -> None:
    found = done_world(spec("a"))
    found.verb("retry", "a", env=(("BS", "8"),))
    found.end("a")
    found.verb("retry", "a")
    assert found.launched[-1].env == ()


def test_a_retry_leaves_out_the_gpus_that_it_is_told_to() -> None:
    found = world(spec("a", gpus=1), spec("b"), gpus=2)
    found.end("a", 1)
    found.verb("retry", "a", not_on=("GPU-0",))
    assert "a" not in found.running()
    assert {o.text for o in explain(found.deck, found.task("a"), found.now)} >= {"GPU 0: left out by the retry"}
    found.end("b")
    assert found.running() == {"a": (1,)}


def test_a_retry_that_leaves_out_too_many_gpus_takes_one_of_them() -> None:
    found = world(spec("a"))
    found.end("a", 1)
    found.verb("retry", "a", not_on=("GPU-0",))
    assert found.running() == {"a": (0,)}


def test_a_task_that_leaves_out_a_gpu_keeps_no_other_from_it() -> None:
    found = world(spec("a1"), spec("a2"), spec("b", gpu_ids=("1",), priority=1), gpus=2)
    found.end("a1", 1)
    found.end("a2", 1)
    found.verb("pause")
    found.verb("retry", "a1", not_on=("GPU-0",))
    found.verb("retry", "a2")
    found.verb("unpause")
    assert found.running() == {"a2": (0,), "b": (1,)}


def test_a_retry_downstream_runs_again_what_builds_on_it_afterwards() -> None:
    found = done_world(spec("a"), spec("b", needs=("a",)), spec("c", needs=("b",)), spec("d"), gpus=4)
    found.verb("retry", "a", downstream=True)
    assert found.phases() == {"a": "running", "b": "waiting", "c": "waiting", "d": "succeeded"}
    found.end("a")
    found.end("b")
    found.end("c")
    assert [launch.task for launch in found.launched[4:]] == ["a", "b", "c"]


def test_a_retry_downstream_reaches_later_rounds_and_what_comes_after() -> None:
    found = done_world(spec("a"), spec("b", round=1), spec("c", round=2), spec("d", group="x", after=("b",)), gpus=4)
    found.verb("retry", "a", downstream=True)
    assert found.phases() == {"a": "running", "b": "waiting", "c": "waiting", "d": "waiting"}


def test_a_retry_downstream_leaves_what_the_user_cancelled() -> None:
    found = world(spec("a"), spec("b", needs=("a",)), spec("c", after=("b",)))
    found.end("a")
    found.verb("cancel", "b")
    found.end("b", 143)
    found.end("c")
    found.verb("retry", "a", downstream=True)
    assert found.phases() == {"a": "running", "b": "cancelled", "c": "succeeded"}


def test_the_options_of_a_retry_hold_for_what_is_downstream() -> None:
    found = done_world(spec("a"), spec("b", needs=("a",)))
    found.verb("retry", "a", downstream=True, env=(("TAG", "2"),))
    found.end("a")
    assert found.launched[-1].env == (("TAG", "2"),)


def test_a_retry_downstream_reaches_a_large_round() -> None:
    found = done_world(spec("a"), *[spec(f"b{index}", gpus=0, round=1) for index in range(600)], cores=600)
    found.verb("retry", "a", downstream=True)
    assert list(found.phases().values()).count("waiting") == 600


def test_a_retry_starts_a_task_in_backoff_at_once() -> None:
    found = world(spec("a", retries=1, backoff_s=100.0))
    found.end("a", 1)
    found.verb("retry", "a")
    assert found.phase("a") == "running"


def test_a_retry_by_hand_gives_a_fresh_budget() -> None:
    found = world(spec("a", retries=1))
    for _ in range(2):
        found.end("a", 1)
        found.advance(60)
    found.verb("retry", "a")
    found.end("a", 1)
    assert found.phase("a") == "backoff"


def test_a_retry_names_who_asked() -> None:
    found = done_world(spec("a"))
    act = found.verb("retry", "a", by="alice")
    assert found.of(e.TaskRetried) == [e.TaskRetried("a", found.now, e.PLAIN, "alice", act)]


def test_a_run_begun_by_hand_keeps_the_options_of_the_last() -> None:
    found = done_world(spec("a"))
    found.deck.run.options = "--set x=1"
    found.verb("retry", "a")
    assert found.of(e.RunStarted)[-1].options == "--set x=1"  # pyright: ignore


def test_a_run_begun_by_hand_after_a_reboot_belongs_to_this_boot() -> None:
    found = done_world(spec("a"))
    found.restart(reboot=True)
    found.verb("retry", "a")
    found.restart()
    assert (found.phase("a"), found.of(e.BoxRestarted), len(found.launched)) == ("running", [], 2)


def test_a_run_begun_by_hand_looks_at_nothing_that_is_settled() -> None:
    found = done_world(spec("a"), *[spec(f"b{index}", gpus=0) for index in range(600)], cores=600)
    found.inbox.append(i.Verb("retry", ("a",)))
    steps = 0
    while found.inbox:
        found.step()
        steps += 1
    assert steps <= 3


def test_a_run_begun_by_hand_begins_no_task_that_failed_in_an_earlier_one() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    found.end("a", 1)
    found.end("b", 1)
    found.verb("retry", "a")
    found.end("a")
    found.verb("retry", "a")
    found.end("a")
    assert (found.deck.run.number, found.phase("b"), len(found.launched)) == (3, "failed", 4)


def halted_by_a() -> World:
    found = world(spec("a"), spec("b"), spec("c", needs=("a",)), settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("a", 1)
    assert found.deck.run.ended
    return found


def test_a_run_begun_by_hand_leaves_alone_what_a_halted_run_has_left() -> None:
    found = halted_by_a()
    found.verb("retry", "a")
    found.end("a")
    found.end("c")
    assert (found.deck.run.ended, found.phase("b")) == (True, "waiting")


def test_what_a_halt_has_left_waits_on_after_a_run_by_hand_whichever_engine_comes() -> None:
    found = halted_by_a()
    found.verb("retry", "a")
    found.end("a")
    found.end("c")
    found.restart()
    found.reopen()
    assert (found.phase("b"), found.deck.run.halted) == ("waiting", "a")
    found.verb("unpause")
    assert found.phase("b") == "running"


def test_unpause_lifts_an_earlier_halt_while_a_run_by_hand_goes_on() -> None:
    found = halted_by_a()
    found.verb("retry", "a")
    found.verb("unpause")
    found.end("a")
    assert (found.phase("b"), found.deck.run.halted_before) == ("running", "")


def test_a_rerun_that_failed_is_not_cached_by_the_success_before_it() -> None:
    found = done_world(spec("a", outputs=("/out",)))
    found.verb("retry", "a")
    found.end("a", 1)
    found.restart()
    found.begin()
    assert found.phase("a") == "running"
