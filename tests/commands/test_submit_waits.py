"""What a job waits for, and what is told of keys that mean nothing to it."""

from __future__ import annotations

from dataclasses import replace

from gpudeck.engine.core.spec import DeckSettings, Halt, Policy, Resources, TaskSpec, Work
from tests.inside.commands import Waits, missing, not_expressed, waits_of


def spec(name: str, **more: object) -> TaskSpec:
    made = TaskSpec(name, name, 0, Work("true"), name)
    return replace(made, **more)  # pyright: ignore[reportArgumentType]


def test_needs_are_waited_for_until_they_succeed_and_after_until_they_end() -> None:
    tasks = [spec("a"), spec("b"), spec("c", needs=("a",), after=("b",))]
    assert waits_of(tasks, done=set())["c"] == Waits(("a",), ("b",))


def test_a_glob_means_every_task_but_the_one_that_has_it() -> None:
    tasks = [spec("train-1"), spec("train-2"), spec("train-all", needs=("train-*",))]
    assert waits_of(tasks, done=set())["train-all"].ok == ("train-1", "train-2")


def test_what_is_needed_and_comes_after_is_waited_for_once() -> None:
    tasks = [spec("a"), spec("b", needs=("a",), after=("a",))]
    assert waits_of(tasks, done=set())["b"] == Waits(("a",))


def test_nobody_waits_for_what_is_done() -> None:
    tasks = [spec("a"), spec("b", needs=("a",), after=("a",)), spec("c", round=1)]
    assert waits_of(tasks, done={"a"}) == {"a": Waits(), "b": Waits(), "c": Waits(("b",))}


def test_a_round_waits_for_the_round_before_alone() -> None:
    tasks = [spec("a"), spec("b", round=1), spec("c", round=2)]
    assert waits_of(tasks, done=set())["c"] == Waits(("b",))


def test_a_round_whose_predecessor_is_done_waits_for_the_one_before_that() -> None:
    tasks = [spec("a"), spec("b", round=1), spec("c", round=2)]
    assert waits_of(tasks, done={"b"})["c"] == Waits(("a",))


def test_a_round_that_opens_when_the_others_ended_waits_for_all_of_them() -> None:
    tasks = [spec("a"), spec("b", round=1), spec("c", round=2, barrier="ended")]
    assert waits_of(tasks, done=set())["c"] == Waits((), ("a", "b"))


def test_a_round_behind_one_that_only_had_to_end_waits_for_all_earlier_ones() -> None:
    tasks = [spec("a"), spec("b", round=1, barrier="ended"), spec("c", round=2)]
    assert waits_of(tasks, done=set())["c"] == Waits(("a", "b"))


def test_rounds_of_another_group_are_not_waited_for() -> None:
    tasks = [spec("a", group="x"), spec("b", group="y", round=1)]
    assert waits_of(tasks, done=set())["b"] == Waits()


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
