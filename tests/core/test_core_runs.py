"""Runs: what a run takes up, what counts as done, what a new engine goes on with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_decks import changed_file
from core_restored import assert_restores
from core_world import World, deck_file, done_world, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.flags import flags
from gpudeck.engine.core.phases import Cached
from gpudeck.engine.core.spec import DeckSettings, Halt

HEADLESS = ("failed", "changed", "stale")


def done(*tasks: object, **more: object) -> World:
    """A world in which every task has succeeded once."""
    found = world(*tasks, **more)  # pyright: ignore[reportArgumentType]
    while not found.deck.run.ended:
        for proc in found.live():
            found.end(proc.task)
    return found


def again(found: World, takes: tuple[str, ...] = HEADLESS, **more: object) -> None:
    found.restart(**more)  # pyright: ignore[reportArgumentType]
    found.begin(takes)


def test_a_run_ends_when_all_is_settled() -> None:
    assert done(spec("a"), spec("b")).of(e.RunEnded) == [e.RunEnded(1, 1000.0, done(spec("a")).wall)]


def test_a_second_run_finds_successes_cached_and_starts_nothing() -> None:
    found = done(spec("a"), spec("b", needs=("a",)))
    again(found)
    assert (found.phases(), len(found.launched)) == ({"a": "cached", "b": "cached"}, 2)


def test_an_unfinished_run_keeps_its_failures_failed() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    found.end("a", 1)
    found.restart()
    assert found.phases() == {"a": "failed", "b": "running"}


def test_an_unfinished_run_keeps_used_retries() -> None:
    found = world(spec("a", retries=1))
    found.end("a", 1)
    found.restart()
    found.advance(60)
    found.end("a", 1)
    assert found.phase("a") == "failed"


def test_a_backoff_goes_on_across_a_restart() -> None:
    found = world(spec("a", retries=1, backoff_s=100.0))
    found.end("a", 1)
    found.advance(50)
    found.restart()
    assert found.phase("a") == "backoff"
    found.advance(75)
    assert found.phase("a") == "running"


def test_a_headless_run_takes_up_what_failed_with_a_fresh_budget() -> None:
    found = world(spec("a", retries=1))
    found.end("a", 1)
    found.advance(60)
    found.end("a", 1)
    again(found)
    found.end("a", 1)
    assert found.phase("a") == "backoff"


def test_a_run_that_takes_only_new_tasks_leaves_failures_alone() -> None:
    found = world(spec("a"))
    found.end("a", 1)
    again(found, ("new",))
    assert found.phase("a") == "failed"


def test_a_run_that_takes_only_new_tasks_looks_at_no_success_again() -> None:
    found = done(spec("a", outputs=("/out",)))
    found.outputs.clear()
    again(found, ("new",))
    assert found.phase("a") == "succeeded"


@pytest.mark.parametrize(("takes", "phase"), [(HEADLESS, "cancelled"), ((*HEADLESS, "cancelled"), "running")])
def test_cancelled_tasks_run_again_only_where_asked_for(takes: tuple[str, ...], phase: str) -> None:
    found = world(spec("a"))
    found.verb("cancel", "a")
    found.end("a", 143)
    again(found, takes)
    assert found.phase("a") == phase


def test_changed_work_runs_again_headless() -> None:
    found = done(spec("a"))
    again(found, file=changed_file(found.file, "a"))
    assert found.phase("a") == "running"


def test_changed_work_waits_for_the_user_otherwise() -> None:
    found = done(spec("a"))
    again(found, ("new",), file=changed_file(found.file, "a"))
    assert (found.phase("a"), flags(found.deck, found.task("a"))) == ("succeeded", ("changed",))


def test_a_renamed_task_is_still_done() -> None:
    found = done(spec("a"))
    again(found, file=deck_file([spec("b", fingerprint="fp-a")]))
    assert found.task("b").phase == Cached("journal", "a", 1)


def test_a_result_that_was_spoilt_counts_for_no_other_name_once_its_own_has_left_the_file() -> None:
    found = done(spec("a"))
    found.facts.append(e.ResultSpoilt("a", found.now))
    again(found, file=deck_file([spec("b", fingerprint="fp-a")]))
    assert found.phase("b") == "running"


def test_a_success_whose_outputs_are_gone_runs_again() -> None:
    found = done(spec("a", outputs=("/out",)))
    found.outputs.clear()
    again(found)
    assert found.phase("a") == "running"


def test_outputs_of_an_unknown_task_count_as_done() -> None:
    found = world(spec("a", outputs=("/out",)), begin=False)
    found.outputs.add("a")
    found.begin()
    assert found.phase("a") == "cached"


def renamed(found: World) -> None:
    """The task has another name in the file, and its outputs are there."""
    (task,) = found.file.tasks
    found.outputs.add("b")
    found.restart(file=replace(found.file, tasks=(replace(task, name="b"),)))
    found.begin()


def test_what_a_failed_attempt_left_is_no_result_of_the_task_under_another_name() -> None:
    found = world(spec("a", outputs=("/out",)))
    found.end("a", 1)
    renamed(found)
    assert found.phase("b") == "running"


def test_what_a_success_left_is_the_result_of_the_task_under_another_name() -> None:
    found = done(spec("a", outputs=("/out",)))
    renamed(found)
    assert found.phase("b") == "cached"


def test_outputs_beside_logs_of_an_unknown_attempt_prove_nothing() -> None:
    found = world(spec("a", outputs=("/out",)), begin=False)
    found.outputs.add("a")
    found.attempted.add("a")
    found.begin()
    assert found.phase("a") == "running"


def test_outputs_left_by_a_killed_attempt_are_not_taken_as_done() -> None:
    found = world(spec("a", outputs=("/out",)))
    found.outputs.add("a")
    found.verb("cancel", "a")
    found.end("a", 143)
    again(found, (*HEADLESS, "cancelled"))
    assert found.phase("a") == "running"


def test_what_builds_on_a_rerun_task_is_stale_and_runs_again_headless() -> None:
    found = done(spec("train"), spec("gather", needs=("train",)))
    found.advance(10)
    again(found, file=changed_file(found.file, "train"))
    found.end("train")
    assert found.phase("gather") == "running"


def test_what_builds_on_a_rerun_task_is_only_flagged_when_the_user_reruns_it() -> None:
    found = done(spec("train"), spec("gather", needs=("train",)))
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    assert (found.phase("gather"), flags(found.deck, found.task("gather"))) == ("succeeded", ("stale",))


def test_a_later_round_is_stale_when_an_earlier_one_ran_again() -> None:
    found = done(spec("a"), spec("b", round=1), spec("c", round=2))
    found.advance(10)
    again(found, file=changed_file(found.file, "a"))
    found.end("a")
    found.end("b")
    assert found.phase("c") == "running"


def test_outputs_older_than_what_ran_in_this_run_are_stale() -> None:
    found = world(spec("train"), spec("gather", needs=("train",), outputs=("/out",)), begin=False)
    found.outputs.add("gather")
    found.begin()
    found.advance(5)
    found.end("train")
    assert found.phase("gather") == "running"


def test_a_task_found_by_its_outputs_does_not_become_stale_by_an_older_success() -> None:
    found = done(spec("train"))
    file = deck_file([spec("train"), spec("gather", needs=("train",), outputs=("/out",))])
    found.outputs.add("gather")
    found.advance(10)
    again(found, file=file)
    assert (found.phase("gather"), flags(found.deck, found.task("gather"))) == ("cached", ())
    found.advance(10)
    again(found)
    assert (found.phase("gather"), flags(found.deck, found.task("gather"))) == ("cached", ())


def test_taking_all_counts_nothing_as_done() -> None:
    found = done(spec("a"))
    again(found, ("all",))
    assert found.phase("a") == "running"


def test_holds_and_pause_end_with_the_run() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    found.verb("hold", "a")
    found.verb("pause")
    found.verb("cancel", "a")
    found.end("a", 143)
    assert (found.deck.run.ended, found.deck.paused, found.task("a").held) == (True, "", False)


def test_a_task_held_when_a_halted_run_ended_starts_in_the_next() -> None:
    found = world(spec("a"), spec("b"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.verb("hold", "b")
    found.end("a", 1)
    assert found.deck.run.ended
    again(found, ("new",))
    assert found.phase("b") == "running"


def test_retry_on_an_ended_run_begins_another_that_takes_nothing_else_up() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    found.end("a", 1)
    found.end("b", 1)
    found.verb("retry", "a")
    assert (found.deck.run.number, found.phases()) == (2, {"a": "running", "b": "failed"})


def test_a_retried_success_runs_again_whatever_the_journal_says() -> None:
    found = done(spec("a", outputs=("/out",)))
    found.verb("retry", "a")
    assert found.phase("a") == "running"


def test_a_retry_by_hand_while_outputs_are_looked_at_runs() -> None:
    found = world(spec("a", outputs=("/out",)), begin=False)
    found.slow_checks = True
    found.outputs.add("a")
    found.begin()
    found.verb("cancel", "a")
    found.verb("retry", "a")
    found.answer_checks()
    found.settle()
    assert found.phase("a") == "running"


def test_a_held_backoff_keeps_its_time() -> None:
    found = world(spec("a", retries=1, backoff_s=100.0))
    found.end("a", 1)
    found.verb("hold", "a")
    found.advance(200)
    assert (found.phase("a"), len(found.launched)) == ("queued", 1)
    found.verb("release", "a")
    assert len(found.launched) == 2


def test_the_same_facts_rebuild_the_same_deck() -> None:
    found = world(*[spec(f"a{index}", retries=2, priority=index % 2) for index in range(6)], gpus=2)
    found.end("a1", 1)
    found.verb("priority", "a4", value=9)
    found.verb("hold", "a2")
    assert_restores(found)


def test_a_fact_about_a_task_that_the_file_no_longer_has_changes_nothing() -> None:
    found = done(spec("a"), spec("b"))
    found.restart(file=deck_file([spec("b")]))
    assert found.phases() == {"b": "succeeded"}


def test_files_on_a_server_that_does_not_answer_do_not_keep_others_from_starting() -> None:
    found = world(spec("a", outputs=("/nfs",)), spec("b"), gpus=2, begin=False)
    found.slow_checks = True
    found.begin()
    assert found.phase("b") == "queued"
    found.advance(2.5)
    assert found.phase("b") == "running"


def test_a_changed_file_does_not_lose_a_task_whose_gpu_is_gone() -> None:
    found = world(spec("a"), gpus=2)
    make = found.make_gpus
    found.make_gpus = lambda: make()[1:]
    found.restart()
    assert found.phase("a") == "running"
    found.end("a")
    assert found.phase("a") == "succeeded"


def test_settings_of_another_engine_do_not_matter_to_what_is_done() -> None:
    found = done(spec("a"))
    again(found, file=replace(found.file, settings=DeckSettings(order="longest")))
    assert found.phase("a") == "cached"


def test_what_was_queued_when_a_halted_run_ended_is_taken_up_by_the_same_engine() -> None:
    found = world(spec("a"), spec("b"), spec("c"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.verb("hold", "b")
    found.end("a", 1)
    found.begin(("new",))
    assert found.phase("b") == "running"


def test_a_round_is_stale_across_one_in_which_nothing_ran() -> None:
    found = done(spec("a"), spec("b", round=1), spec("c", round=2), spec("d", round=2, after=("b",)))
    found.advance(10)
    again(found, file=changed_file(found.file, "a"))
    found.end("a")
    found.verb("cancel", "b")
    found.end("b", 143)
    assert found.phase("c") == "running"


def test_a_renamed_task_that_is_stale_is_not_run_again_by_a_screen() -> None:
    found = done(spec("need"), spec("a", needs=("need",)))
    found.advance(1)
    found.verb("retry", "need")
    found.end("need")
    assert found.deck.run.ended
    renamed = spec("b", fingerprint="fp-a", needs=("need",))
    found.reopen(file=deck_file([spec("need"), renamed]))
    assert found.phase("b") == "cached"


def test_two_tasks_that_do_the_same_are_both_done() -> None:
    found = world(spec("a", fingerprint="same"), spec("b", fingerprint="same", needs=("a",)))
    found.end("a")
    assert found.phase("b") == "running"


def test_a_result_found_by_its_outputs_is_no_newer_than_the_run_that_found_it() -> None:
    found = world(spec("a", outputs=("model.pt",), needs=("b",)), spec("b", outputs=("data",)), begin=False)
    found.outputs |= {"a", "b"}
    found.begin()
    assert found.phases() == {"a": "cached", "b": "cached"}
    found.advance(10)
    found.verb("retry", "b")
    found.advance(10)
    found.end("b")
    found.begin()
    assert found.phase("a") == "running"


def test_a_cancelled_task_stays_so_although_the_file_has_changed_it() -> None:
    found = world(spec("a"), spec("b"))
    found.end("a")
    found.verb("retry", "a")
    found.verb("cancel", "a")
    found.restart(file=deck_file([spec("a", fingerprint="other"), spec("b")]), changed=True)
    assert found.phases() == {"a": "cancelled", "b": "running"}


def test_a_changed_task_whose_work_was_done_under_another_name_is_not_done_again() -> None:
    found = world(spec("a"), spec("b"), spec("c"))
    found.end("a")
    found.end("b")
    found.restart(file=deck_file([spec("a", fingerprint="fp-b"), spec("c")]), changed=True)
    assert found.phases() == {"a": "cached", "c": "running"}


def test_a_rerun_that_failed_is_not_done_by_the_success_before_it() -> None:
    found = done_world(spec("a"))
    found.verb("retry", "a")
    found.end("a", 1)
    found.restart()
    found.begin()
    assert found.phase("a") == "running"


def test_what_a_run_has_left_out_is_not_queued_once_it_has_ended() -> None:
    found = world(spec("a"), spec("b"), gpus=2)
    found.give(i.Shutdown(False, "INT"))
    found.end("a", 143)
    found.end("b", 143)
    found.restart(file=replace(found.file, selected=frozenset({"a"})))
    found.end("a")
    assert (found.deck.run.ended, found.phase("b")) == (True, "waiting")
