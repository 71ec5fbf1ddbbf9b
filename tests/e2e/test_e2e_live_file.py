"""The task file is edited while its deck runs, and is taken up by itself."""

from __future__ import annotations

import os

from tests.e2e.decks import Deck, Gate, until
from tests.e2e.live_edits import AUTO, OFF, apply, begun, save, task, waits

# -- by itself ---------------------------------------------------------------------------------------------------------


def test_a_queued_task_that_was_changed_runs_as_the_file_says_now(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a") + waits("b") + task("c", "echo old >> ran"), "a", "b")
    save(deck, AUTO + waits("a") + waits("b") + task("c", "echo new >> ran"))
    engine.note("applied: 1 changed, not started")
    gate.let(2)
    assert engine.finish().code == 0
    assert sorted(deck.lines("ran")) == ["a", "b", "new"]


def test_a_broken_edit_is_told_once_and_harms_nothing(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a"), "a")
    save(deck, AUTO + waits("a") + "[[task]\n")
    engine.note("cannot be used; the deck goes on as it was")
    engine.note("tasks.toml:")
    save(deck, AUTO + waits("a") + task("b", "true"))
    engine.ended("b")
    gate.let()
    ran = engine.finish()
    assert ran.code == 0
    assert ran.notes.count("cannot be used") == 1


def test_touching_the_file_or_editing_a_comment_says_nothing(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a"), "a")
    os.utime(deck.folder / "tasks.toml")
    save(deck, AUTO + waits("a"))
    save(deck, AUTO + "# a comment\n" + waits("a"))
    save(deck, AUTO + "# another\n" + waits("a") + task("b", "true"))
    engine.ended("b")
    gate.let()
    ran = engine.finish()
    assert [line for line in ran.notes.splitlines() if "tasks.toml" in line] == ["tasks.toml applied: 1 added"]


def test_a_file_with_fewer_tasks_is_not_applied_unasked(deck: Deck, gate: Gate):
    whole = AUTO + waits("a") + waits("b") + waits("c")
    engine = begun(deck, whole, "a", "b")
    save(deck, AUTO + waits("a") + waits("b"))
    engine.note("1 gone, not started; this is not done unasked")
    save(deck, whole + task("d", "true"))
    engine.note("applied: 1 added")
    gate.let(3)
    assert engine.finish().states == dict.fromkeys("abcd", "succeeded")


def test_half_of_a_rename_is_not_applied_unasked(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a") + waits("b") + waits("c"), "a", "b")
    save(deck, AUTO + waits("a") + waits("b") + waits("renamed"))
    engine.note("1 added; 1 gone, not started; this is not done unasked")
    assert apply(deck)["applied"] is not None
    gate.let(3)
    assert engine.finish().states == dict.fromkeys(("a", "b", "renamed"), "succeeded")
    assert sorted(deck.lines("ran")) == ["a", "b", "renamed"]


def test_a_new_name_for_what_runs_is_not_started_beside_it_unasked(deck: Deck, gate: Gate):
    work = "read _ <gate; echo a >> ran"
    engine = begun(deck, AUTO + task("a", work), "a")
    save(deck, AUTO + task("a", "echo other >> ran") + task("renamed", work))
    engine.note("1 changed, running; 1 renamed; this is not done unasked")
    assert apply(deck)["applied"] is not None
    gate.let()
    assert engine.finish().code == 0
    assert sorted(deck.lines("ran")) == ["a", "other"]


def test_two_that_swap_their_commands_while_one_runs_are_not_changed_unasked(deck: Deck, gate: Gate):
    one, other = "read _ <gate; echo one >> ran", "echo other >> ran"
    engine = begun(deck, AUTO + task("a", one) + task("b", other, 'needs = ["a"]'), "a")
    save(deck, AUTO + task("a", other) + task("b", one, "gpus = 2"))
    engine.note("1 changed, running; 1 renamed; this is not done unasked")
    told = "b (was a): what was done, or runs, under the other name counts"
    assert any(told in line for line in apply(deck, dry_run=True)["lines"])
    assert apply(deck)["applied"] is not None
    gate.let()
    assert engine.finish().code == 0
    assert sorted(deck.lines("ran")) == ["one", "other"]


def test_what_a_running_task_is_to_do_next_is_given_to_no_other_unasked(deck: Deck, gate: Gate):
    one, other = "read _ <gate; echo one >> ran", "echo other >> ran"
    engine = begun(deck, AUTO + task("a", one) + task("b", other, 'needs = ["a"]'), "a")
    save(deck, AUTO + task("a", other) + task("b", one, "gpus = 2"))
    assert apply(deck)["applied"] is not None
    save(deck, AUTO + task("a", one) + task("b", other, "gpus = 2") + task("c", "echo c >> ran"))
    engine.note("1 added; 1 changed, not started; 1 changed, running; this is not done unasked")
    gate.let()
    assert engine.finish().code == 0
    assert sorted(deck.lines("ran")) == ["one", "other"]


def test_a_running_task_that_was_changed_is_left_alone_and_the_others_follow_the_file(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a") + waits("b") + task("c", "echo old >> ran"), "a", "b")
    save(deck, AUTO + waits("a", then="echo more >> ran") + waits("b") + task("c", "echo new >> ran"))
    engine.note("1 changed, running; this is not done unasked")
    gate.let(2)
    ran = engine.finish()
    assert ran.code == 0
    assert sorted(deck.lines("ran")) == ["a", "b", "new"]


def test_a_file_that_vanishes_and_comes_back_is_read_again(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a"), "a")
    os.unlink(deck.folder / "tasks.toml")
    engine.note("tasks.toml is gone; the deck goes on as it is")
    save(deck, AUTO + waits("a") + task("b", "true"))
    engine.ended("b")
    gate.let()
    assert engine.finish().states == {"a": "succeeded", "b": "succeeded"}


def test_a_finished_task_that_was_changed_runs_again_in_a_headless_run(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a") + task("b", "echo old >> ran"), "a")
    engine.ended("b")
    save(deck, AUTO + waits("a") + task("b", "echo new >> ran"))
    engine.ended("b", attempt=2)
    gate.let()
    assert engine.finish().code == 0
    assert deck.lines("ran") == ["old", "new", "a"]


def test_without_a_screen_edits_do_nothing_unless_the_file_asks_for_it(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, OFF + waits("a") + task("b", "true"))
    plan = apply(deck, dry_run=True)
    assert plan["plan"]["added"] == ["b"]
    gate.let()
    ran = engine.finish()
    assert ran.states == {"a": "succeeded"}
    assert "tasks.toml" not in ran.notes


def test_reload_that_is_turned_on_in_the_file_holds_at_once(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, AUTO + waits("a") + task("b", "true"))
    engine.ended("b")
    gate.let()
    assert engine.finish().code == 0


def test_reload_that_is_turned_off_in_the_file_holds_at_once(deck: Deck, gate: Gate):
    engine = begun(deck, AUTO + waits("a"), "a")
    save(deck, OFF + waits("a") + task("b", "true"))
    until(lambda: apply(deck, dry_run=True)["plan"])
    save(deck, OFF + waits("a") + task("c", "true"))
    gate.let()
    ran = engine.finish()
    assert ran.states == {"a": "succeeded"}
    assert "tasks.toml was changed" not in ran.notes


def test_a_broken_edit_of_a_file_that_is_not_watched_for_edits_is_not_told(deck: Deck, gate: Gate):
    engine = begun(deck, OFF + waits("a"), "a")
    save(deck, "[deck")
    save(deck, AUTO + waits("a") + task("b", "true"))
    engine.ended("b")
    gate.let()
    assert "cannot be used" not in engine.finish().notes


# -- and then the engine dies ------------------------------------------------------------------------------------------


def test_a_task_renamed_while_it_runs_is_not_repeated_by_the_next_engine(deck: Deck, gate: Gate):
    work = "read _ <gate; echo ran >> ran"
    engine = begun(deck, OFF + task("old", work), "old")
    save(deck, OFF + task("new", work))
    apply(deck)
    engine.kill()
    second = deck.start()
    second.event("deck_opened")
    gate.let()
    assert second.finish().states == {"new": "cached"}
    assert until(lambda: deck.lines("ran")) == ["ran"]
