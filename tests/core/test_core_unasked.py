"""A run that a retry has begun takes up what was asked for; what is new in the file waits for one that wants it."""

from __future__ import annotations

from dataclasses import replace

from core_world import World, done_world, spec, world

from gpudeck.engine.core import events as e
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.spec import TaskSpec


def edited(found: World, *tasks: TaskSpec) -> None:
    """The next engine finds these in the file."""
    placed = (replace(task, position=place) for place, task in enumerate(tasks))
    found.restart(file=replace(found.file, tasks=tuple(placed)))


def test_a_retry_leaves_what_is_new_alone_and_its_run_ends_without_it() -> None:
    found = done_world(spec("a"))
    edited(found, spec("a"), spec("b"))
    found.verb("retry", "a")
    assert found.phases() == {"a": "running", "b": "waiting"}
    assert [why.kind for why in explain(found.deck, found.task("b"), found.now)] == ["left out"]
    found.end("a")
    assert (found.deck.run.ended, found.phase("b")) == (True, "waiting")


def test_what_a_retried_task_waits_for_comes_along_with_all_that_this_waits_for() -> None:
    found = done_world(spec("a"))
    edited(found, spec("d"), spec("c"), spec("b", needs=("c",)), spec("a", needs=("b",)))
    found.verb("retry", "a")
    for name in ("c", "b", "a"):
        found.end(name)
    assert (found.deck.run.ended, found.phase("d")) == (True, "waiting")


def test_an_earlier_round_comes_along_too() -> None:
    found = done_world(spec("a", round=1))
    edited(found, spec("b"), spec("a", round=1))
    found.verb("retry", "a")
    assert found.phases() == {"b": "running", "a": "waiting"}


def test_what_a_mended_failure_has_blocked_opens_unless_something_new_is_before_it() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    found.end("a", 1)
    behind = spec("c", needs=("a", "new")), spec("d", needs=("a", "c"))
    edited(found, spec("a"), spec("b", needs=("a",)), spec("new"), *behind)
    found.verb("retry", "a")
    found.end("a")
    found.end("b")
    assert (found.deck.run.ended, found.phase("c"), found.phase("d")) == (True, "waiting", "waiting")


def test_what_is_new_waits_on_when_another_engine_goes_on_and_starts_once_a_run_takes_it() -> None:
    found = done_world(spec("a"))
    edited(found, spec("a"), spec("b"))
    found.verb("retry", "a")
    found.restart()
    assert found.phase("b") == "waiting"
    found.reopen()
    assert "b" in found.queued()


def test_a_new_task_that_was_cancelled_and_taken_back_runs() -> None:
    found = done_world(spec("a"))
    edited(found, spec("a"), spec("b"), spec("c"))
    found.undo(found.verb("cancel", "b"))
    assert (found.phase("b"), found.phase("c")) == ("running", "waiting")


def test_the_next_run_that_takes_what_is_new_starts_it() -> None:
    found = done_world(spec("a"))
    edited(found, spec("a"), spec("b"))
    found.verb("retry", "a")
    found.end("a")
    found.reopen()
    assert (found.phase("b"), found.of(e.RunStarted)[-1].takes) == ("running", ("new",))


def test_the_next_engine_knows_what_was_blocked_from_what_is_new() -> None:
    found = world(spec("a"), spec("b", needs=("a",)))
    found.end("a", 1)
    edited(found, spec("a"), spec("b", needs=("a",)), spec("new"))
    found.verb("retry", "a")
    found.restart()
    found.end("a")
    assert (found.phase("b"), found.phase("new")) == ("running", "waiting")
