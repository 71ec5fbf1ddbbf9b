"""Flags beside the phase: held, changed and stale, kept without scans and the same after a restart."""

from __future__ import annotations

from core_decks import changed_file
from core_world import World, deck_file, done_world, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core.flags import FlagCounts, count_flags, flags, is_changed, is_stale, take_flagged
from gpudeck.engine.core.inputs import Verb


def changed(found: World, name: str) -> bool:
    return is_changed(found.deck, found.task(name))


def stale(found: World, name: str) -> bool:
    return is_stale(found.deck, found.task(name))


def test_a_success_of_what_the_file_no_longer_wants_is_changed() -> None:
    found = done_world(spec("a"), spec("b"))
    found.reopen(file=changed_file(found.file, "a"))
    assert (changed(found, "a"), changed(found, "b")) == (True, False)


def test_a_failure_is_changed_by_what_its_newest_attempt_was_of() -> None:
    found = world(spec("a"))
    found.end("a", 1)
    found.reopen(file=changed_file(found.file, "a"))
    assert (found.phase("a"), changed(found, "a")) == ("failed", True)


def test_a_command_that_could_not_be_started_is_changed_once_the_file_is_mended() -> None:
    found = world(spec("a"))
    found.end("a", 127, spawn_error="no such command")
    found.reopen(file=changed_file(found.file, "a"))
    assert changed(found, "a")


def test_a_file_that_says_again_what_it_said_takes_the_flag_away() -> None:
    found = done_world(spec("a"))
    first = found.file
    found.reopen(file=changed_file(first, "a"))
    found.reopen(file=first)
    assert not changed(found, "a")


def test_a_task_that_runs_again_is_not_changed() -> None:
    found = done_world(spec("a"))
    found.reopen(file=changed_file(found.file, "a"))
    found.verb("retry", "a")
    assert (found.phase("a"), changed(found, "a")) == ("running", False)


def test_a_renamed_task_is_not_changed() -> None:
    found = done_world(spec("a"))
    found.reopen(file=deck_file([spec("b", fingerprint="fp-a")]))
    assert (found.phase("b"), flags(found.deck, found.task("b"))) == ("cached", ())


def test_a_new_success_makes_all_that_builds_on_it_stale() -> None:
    found = done_world(
        spec("train"), spec("gather", needs=("train",)), spec("plot", after=("train",)), spec("other"), gpus=4
    )
    found.advance(10)
    found.verb("retry", "train")
    assert count_flags(found.deck).stale == 0
    found.end("train")
    assert [name for name in found.phases() if stale(found, name)] == ["gather", "plot"]


def test_what_is_stale_is_shown_and_does_not_run() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)))
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    assert (found.phase("gather"), found.deck.run.ended) == ("succeeded", True)


def test_a_later_round_becomes_stale_with_every_round_behind_it() -> None:
    found = done_world(spec("a"), spec("b", round=1), spec("c", round=2))
    found.advance(10)
    found.verb("retry", "a")
    found.end("a")
    assert (stale(found, "b"), stale(found, "c")) == (True, True)


def test_a_stale_task_that_succeeds_again_is_stale_no_more() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)))
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    found.advance(10)
    found.verb("retry", "gather")
    found.end("gather")
    assert not stale(found, "gather")


def test_a_renamed_task_becomes_stale_like_any_other() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)))
    found.reopen(file=deck_file([spec("train"), spec("collect", needs=("train",), fingerprint="fp-gather")]))
    assert found.phase("collect") == "cached"
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    assert stale(found, "collect")


def test_flags_are_counted() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)), spec("b"), gpus=2)
    found.reopen(file=changed_file(found.file, "b"))
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    assert count_flags(found.deck) == FlagCounts(held=0, changed=1, stale=1)


def test_a_held_task_bears_its_flag_until_the_run_ends() -> None:
    found = world(spec("a"), spec("b"))
    found.verb("hold", "b")
    assert flags(found.deck, found.task("b")) == ("held",)
    found.verb("cancel", "a", "b")
    found.end("a", 143)
    assert flags(found.deck, found.task("b")) == ()


def test_whoever_shows_flags_is_told_whose_have_changed() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)), spec("b"), gpus=2)
    take_flagged(found.deck)
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    assert take_flagged(found.deck) == {found.task("gather").index}
    assert take_flagged(found.deck) == set()


def test_flags_are_the_same_after_a_restart() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)), spec("b"), gpus=2)
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    found.reopen(file=changed_file(found.file, "b"))
    assert count_flags(found.deck) == FlagCounts(changed=1, stale=1)


def test_an_accepted_change_keeps_the_result_as_that_of_today() -> None:
    found = done_world(spec("a"))
    found.reopen(file=changed_file(found.file, "a"))
    found.verb("accept", "a", by="alice")
    assert (found.phase("a"), flags(found.deck, found.task("a"))) == ("succeeded", ())
    found.restart()
    found.begin()
    assert (found.phase("a"), len(found.launched)) == ("cached", 1)


def test_an_accepted_change_is_one_fact_that_names_who_accepted() -> None:
    found = done_world(spec("a"))
    found.reopen(file=changed_file(found.file, "a"))
    found.verb("accept", "a", by="alice")
    assert found.of(e.TaskAccepted) == [e.TaskAccepted("a", "fp-a'", found.now, found.wall, "alice")]


def test_an_accepted_change_begins_no_run() -> None:
    found = done_world(spec("a"))
    found.reopen(file=changed_file(found.file, "a"))
    found.verb("accept", "a")
    assert (found.deck.run.ended, found.deck.run.number) == (True, 1)


def test_an_accepted_failure_stays_a_failure() -> None:
    found = world(spec("a"))
    found.end("a", 1)
    found.reopen(file=changed_file(found.file, "a"))
    found.verb("accept", "a")
    assert (found.phase("a"), changed(found, "a")) == ("failed", False)


def test_an_accepted_result_makes_nothing_else_stale() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)))
    found.reopen(file=changed_file(found.file, "train"))
    found.advance(10)
    found.verb("accept", "train")
    assert not stale(found, "gather")


def test_an_accepted_stale_result_is_stale_only_after_another_success() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)))
    for expected in (True, True):
        found.advance(10)
        found.verb("retry", "train")
        found.end("train")
        assert stale(found, "gather") is expected
        found.advance(10)
        found.verb("accept", "gather")
        assert not stale(found, "gather")


def test_an_accepted_stale_result_is_cached_when_all_runs_headless() -> None:
    found = done_world(spec("train"), spec("gather", needs=("train",)))
    found.advance(10)
    found.verb("retry", "train")
    found.end("train")
    found.advance(10)
    found.verb("accept", "gather")
    found.restart()
    found.begin()
    assert found.phases() == {"train": "cached", "gather": "cached"}


def test_a_result_accepted_while_it_is_made_counts_as_that_of_today() -> None:
    found = world(spec("a"))
    found.restart(file=changed_file(found.file, "a"))
    found.verb("accept", "a")
    found.end("a")
    assert (found.phase("a"), changed(found, "a")) == ("succeeded", False)
    assert found.of(e.AttemptEnded)[0].fingerprint == "fp-a'"  # pyright: ignore


def test_accepting_what_is_neither_changed_nor_stale_writes_nothing() -> None:
    found = done_world(spec("a"), spec("b", needs=("a",)))
    before = len(found.facts)
    found.give(Verb("accept", ("a", "b")))
    assert len(found.facts) == before
