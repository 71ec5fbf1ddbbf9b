"""Opening a deck with a screen: it shows, continues what is unfinished, starts what is new, and repeats nothing."""

from __future__ import annotations

from core_decks import changed_file
from core_world import World, deck_file, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core.runs import has_new
from gpudeck.engine.core.spec import DeckSettings, Halt

HEADLESS = ("failed", "changed", "stale")


def after(*tasks: object, failing: tuple[str, ...] = (), **more: object) -> World:
    """A world whose run has ended."""
    found = world(*tasks, **more)  # pyright: ignore[reportArgumentType]
    while not found.deck.run.ended:
        for proc in found.live():
            found.end(proc.task, 1 if proc.task in failing else 0, settle=False)
        found.settle()
    return found


def test_opening_an_ended_run_with_nothing_new_begins_none() -> None:
    found = after(spec("a"), spec("b"), failing=("b",))
    facts = len(found.facts)
    found.reopen()
    assert (found.phases(), len(found.facts)) == ({"a": "succeeded", "b": "failed"}, facts)


def test_opening_an_ended_run_starts_a_task_that_is_new_in_the_file() -> None:
    found = after(spec("a"), spec("b"), failing=("b",))
    found.reopen(file=deck_file([*found.file.tasks, spec("c")]))
    assert found.phases() == {"a": "succeeded", "b": "failed", "c": "running"}


def test_opening_an_ended_run_leaves_what_changed_what_is_stale_and_what_was_cancelled() -> None:
    found = after(spec("a"), spec("b", needs=("a",)), spec("c"), gpus=2)
    found.advance(10)
    found.verb("retry", "a", "c")
    found.verb("cancel", "c")
    found.end("c", 143)
    found.end("a")
    started = len(found.launched)
    found.reopen(file=changed_file(found.file, "a"))
    assert (found.phases(), len(found.launched)) == ({"a": "succeeded", "b": "succeeded", "c": "cancelled"}, started)


def test_opening_an_ended_run_looks_at_no_outputs_again() -> None:
    found = after(spec("a", outputs=("/out",)))
    found.outputs.clear()
    found.reopen(file=deck_file([*found.file.tasks, spec("c")]))
    assert found.phases() == {"a": "succeeded", "c": "running"}


def test_a_new_task_that_a_failure_blocks_is_shown_as_blocked_without_a_run() -> None:
    found = after(spec("a"), failing=("a",))
    found.reopen(file=deck_file([*found.file.tasks, spec("b", needs=("a",)), spec("c", needs=("b",))]))
    assert (found.phases(), found.deck.run.number) == ({"a": "failed", "b": "blocked", "c": "blocked"}, 1)


def test_what_is_blocked_when_a_run_ends_is_shown_so_by_the_next_engine() -> None:
    found = after(spec("a"), spec("b", needs=("a",)), failing=("a",))
    found.reopen()
    assert (found.phase("b"), found.deck.newly_blocked) == ("blocked", [])


def test_what_was_blocked_runs_once_a_retry_by_hand_has_mended_its_need() -> None:
    found = after(spec("a"), spec("b", needs=("a",)), failing=("a",))
    found.reopen()
    found.verb("retry", "a")
    found.end("a")
    assert found.phase("b") == "running"


def test_what_a_halt_has_left_waits_until_the_user_lifts_it() -> None:
    found = world(spec("a"), spec("b"), settings=DeckSettings(halt=Halt("soon", fail=1)))
    found.end("a", 1)
    found.reopen()
    assert (found.phase("b"), found.deck.run.ended) == ("waiting", True)
    found.verb("unpause")
    assert found.phase("b") == "running"


def test_opening_an_unfinished_run_continues_it() -> None:
    found = world(spec("a"), spec("b"), spec("c"), gpus=2)
    found.end("a", 1)
    found.reopen()
    assert (found.phases(), found.deck.run.number) == ({"a": "failed", "b": "running", "c": "running"}, 1)


def test_opening_an_unfinished_run_leaves_what_the_file_has_changed() -> None:
    found = world(spec("a"), spec("b"))
    found.end("a")
    found.reopen(file=changed_file(found.file, "a"))
    assert (found.phase("a"), found.deck.marks.changed) == ("succeeded", {0})


def test_a_screen_that_continues_a_headless_run_reruns_nothing_that_changed_meanwhile() -> None:
    found = world(spec("a"))
    found.reopen(file=changed_file(found.file, "a"))
    found.end("a")
    assert (found.phase("a"), len(found.launched)) == ("succeeded", 1)


def test_a_headless_engine_that_continues_a_screens_run_takes_up_what_changed() -> None:
    found = world(spec("a"), spec("b"))
    found.reopen()
    found.end("a")
    found.restart(file=changed_file(found.file, "a"), changed=True, takes=HEADLESS)
    assert found.deck.run.takes == set(HEADLESS)
    found.end("b")
    assert found.phase("a") == "running"


def test_a_run_that_counts_nothing_as_done_stays_so_under_a_screen() -> None:
    found = after(spec("a"), spec("b"))
    found.begin(("all",))
    found.reopen()
    found.end("a")
    assert found.phase("b") == "running"


def test_opening_again_and_again_changes_nothing() -> None:
    found = after(spec("a"), spec("b"), failing=("b",))
    for _ in range(3):
        found.reopen()
    assert (found.deck.run.number, len(found.of(e.RunStarted))) == (1, 1)


def test_a_screen_shows_all_that_an_ended_run_has_left_blocked() -> None:
    found = after(spec("a"), *[spec(f"b{index}", needs=("a",)) for index in range(1000)], failing=("a",))
    found.restart(go_on=False)
    assert list(found.phases().values()).count("blocked") == 1000


def test_with_rerun_stale_a_deck_in_which_nothing_is_stale_begins_nothing_by_itself() -> None:
    found = world(spec("a"), settings=DeckSettings(rerun_stale=True))
    found.end("a")
    assert not has_new(found.deck)
