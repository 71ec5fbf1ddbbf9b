"""What a job waits for, and what is told of keys that mean nothing to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudeck.engine.core.spec import DeckSettings, Halt, Policy, Resources, TaskSpec, Work
from tests.inside.commands import Waits, missing, not_expressed, waits_of


def spec(name: str, **more: object) -> TaskSpec:
    made = TaskSpec(name, name, 0, Work("true"), name)
    return replace(made, **more)  # pyright: ignore[reportArgumentType]


A, B = spec("a"), spec("b")
SECOND, THIRD = spec("b", round=1), spec("c", round=2)


@pytest.mark.parametrize(
    ("tasks", "done", "waits"),
    [
        pytest.param([A, B, spec("c", needs=("a",), after=("b",))], "", Waits(("a",), ("b",)), id="success, or an end"),
        pytest.param([spec("t-1"), spec("t-2"), spec("t-all", needs=("t-*",))], "", Waits(("t-1", "t-2")), id="a glob"),
        pytest.param([A, spec("b", needs=("a",), after=("a",))], "", Waits(("a",)), id="needed and before it: once"),
        pytest.param([A, spec("b", needs=("a",), after=("a",))], "a", Waits(), id="nobody who is done"),
        pytest.param([A, B, spec("c", round=1)], "a", Waits(("b",)), id="of a round those who are not done"),
        pytest.param([A, SECOND, THIRD], "", Waits(("b",)), id="the round before alone"),
        pytest.param([A, SECOND, THIRD], "b", Waits(("a",)), id="the one before that where it is done"),
        pytest.param([A, SECOND, replace(THIRD, barrier="ended")], "", Waits((), ("a", "b")), id="ends: of all rounds"),
        pytest.param([A, replace(SECOND, barrier="ended"), THIRD], "", Waits(("a", "b")), id="behind a round of ends"),
        pytest.param(
            [spec("a", group="x"), spec("b", group="y", round=1)], "", Waits(), id="no rounds of other groups"
        ),
    ],
)
def test_the_last_task_waits_for(tasks: list[TaskSpec], done: str, waits: Waits) -> None:
    assert waits_of(tasks, done=set(done))[tasks[-1].name] == waits


def test_what_is_needed_and_left_out_is_named() -> None:
    tasks = [spec("a"), spec("b", needs=("a",))]
    assert missing(tasks[1:], tasks, done=set()) == {"b": ["a"]}


def test_what_is_needed_and_left_out_may_be_done() -> None:
    tasks = [spec("a"), spec("b", needs=("a",))]
    assert missing(tasks[1:], tasks, done={"a"}) == {}


def test_a_plain_deck_has_nothing_that_jobs_cannot_do() -> None:
    assert not_expressed(DeckSettings(), [spec("a")], limited=()) == []


def test_keys_without_meaning_name_the_tasks_that_have_them() -> None:
    tasks = [spec("a"), spec("b", policy=Policy(retries=2))]
    [line] = not_expressed(DeckSettings(), tasks, limited=())
    assert line.startswith("retries (b): ")


def test_max_parallel_is_told_unless_an_array_holds_it() -> None:
    tasks = [spec("a", resources=Resources(max_parallel=1))]
    told = [bool(not_expressed(DeckSettings(), tasks, limited=limited)) for limited in ((), ("a",))]
    assert told == [True, False]


def test_keys_of_the_deck_are_told_too() -> None:
    [line] = not_expressed(DeckSettings(halt=Halt("soon", fail=1)), [spec("a")], limited=())
    assert line.startswith("halt: ")
