"""The difference of two readings of a task file, against a deck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.phases import QUEUED, Attempt, Cancelled, Running, Starting
from gpudeck.engine.core.spec import Budget, Command, DeckFile, DeckSettings, Halt, Policy, Resources, TaskSpec, Work
from tests.inside.live import Change, FilePlan, as_they_stand, make_plan, settings_for_now, words


def spec(name: str, **more: object) -> TaskSpec:
    given = {"work": Work("true"), "fingerprint": f"of {name}", "position": 0, "entry": name, **more}
    return TaskSpec(name=name, **given)  # pyright: ignore[reportArgumentType]


def deck_file(*specs: TaskSpec, settings: DeckSettings | None = None, selected: set[str] | None = None) -> DeckFile:
    placed = tuple(replace(one, position=place, line=10 * place) for place, one in enumerate(specs))
    chosen = None if selected is None else frozenset(selected)
    return DeckFile("/d/tasks.toml", "tasks", settings or DeckSettings(), placed, selected=chosen, shown="tasks.toml")


def deck_of(file: DeckFile, *, running: tuple[str, ...] = (), finished: tuple[str, ...] = ()) -> Deck:
    deck = build(file, gpus=[Gpu("GPU-0", 0, 0)], cores=8)
    for number, name in enumerate((*running, *finished)):
        task = deck.by_name[name]
        deck.move(task, QUEUED)
        if name in running:
            attempt = Attempt(1, f"token {number}", task.spec.fingerprint, (), 1, 0, 0.0, 0.0)
            deck.move(task, Starting(attempt))
            deck.move(task, Running(attempt))
        else:
            deck.move(task, Cancelled())
    return deck


def plan_of(old: DeckFile, new: DeckFile, **where: tuple[str, ...]) -> FilePlan:
    return make_plan(deck_of(old, **where), old, new, "digest")


def test_the_same_file_changes_nothing():
    old = deck_file(spec("a"), spec("b"))
    assert not plan_of(old, old)


def test_the_line_of_finished_tasks_names_the_flag_that_keeps_their_results():
    plan = plan_of(deck_file(spec("a")), deck_file(spec("a", fingerprint="new")), finished=("a",))
    assert words.lines(plan)[0].endswith(
        "a (command): they run again from the beginning, unless their results are kept (--keep)"
    )
    kept = "a (command): they keep their results: these count as what the file says"
    assert words.lines(plan, keep=True)[0].endswith(kept)


def test_a_new_name_that_the_command_has_in_it_is_told_to_start_anew():
    old, new = ([spec(f"{kind}-{n}", work=Work(f"train --out {kind}-{n}")) for n in (1, 2)] for kind in ("a", "b"))
    plan = plan_of(deck_file(*old, spec("c")), deck_file(*new, spec("d")), finished=("a-1", "a-2", "c"))
    assert "b-1 (was a-1), b-2 (was a-2): the command has the name in it, so it starts anew" in words.lines(plan)[-1]


def test_values_of_a_retry_that_go_with_a_task_are_told():
    old = deck_file(spec("a", given=(("lr", "5"),)), spec("b", given=(("lr", "6"),)))
    lines = words.lines(plan_of(old, deck_file(spec("c"), *old.tasks[1:]), finished=("a", "b")))
    assert "values of a retry     a (lr=5): they go with the task; another has the file's" in lines


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("run --lr 1 --epochs 5", "run --lr 2 --epochs 5", "a: … --lr 1 --epochs … -> … --lr 2 --epochs …"),
        ("run x", "run x --wd 0.1", "a: … x -> … x --wd 0.1"),
        ("run x y", "run y", "a: run x y -> run y"),
        (("run", "a b"), ("run", "a c"), "a: … 'a b' -> … 'a c'"),
        ("run", "walk\x1b[2J", "a: run -> walk\\x1b[2J"),
    ],
)
def test_of_a_command_that_is_another_one_the_words_that_differ_are_told(old: Command, new: Command, told: str):
    plan = plan_of(
        deck_file(spec("a", work=Work(old))),
        deck_file(*(spec(name, work=Work(new), fingerprint="new") for name in "ab")),
    )
    assert [line.strip() for line in words.lines(plan)[-1:]] == [told]


def test_lines_that_move_change_nothing():
    old = deck_file(spec("a"), spec("b"))
    moved = replace(old, tasks=tuple(replace(one, line=one.line + 7) for one in old.tasks))
    assert not plan_of(old, moved)


def test_tasks_are_sorted_by_what_the_edit_means_for_them():
    names = ("run", "done", "wait", "gone-run", "gone-done", "gone-wait")
    old = deck_file(*map(spec, names))
    new = deck_file(*(spec(name, fingerprint="new") for name in names[:3]), spec("added"))
    plan = plan_of(old, new, running=("run", "gone-run"), finished=("done", "gone-done"))
    assert plan.added == ("added",)
    assert plan.changed_running == (Change("run", ("command",)),)
    assert plan.changed_finished == (Change("done", ("command",)),)
    assert plan.changed_waiting == (Change("wait", ("command",)),)
    assert (plan.gone_running, plan.gone_finished, plan.gone_waiting) == (("gone-run",), ("gone-done",), ("gone-wait",))


def test_rules_of_what_runs_change_in_place():
    old = deck_file(spec("a"))
    new = deck_file(spec("a", policy=Policy(timeout_s=60.0, retries=3), priority=5))
    plan = plan_of(old, new, running=("a",))
    assert plan.in_place == (Change("a", ("retries", "timeout", "priority")),)


def test_other_resources_of_what_runs_are_a_change_of_what_runs():
    old = deck_file(spec("a"))
    new = deck_file(spec("a", resources=Resources(gpus=2)))
    assert plan_of(old, new, running=("a",)).changed_running == (Change("a", ("gpus",)),)
    assert plan_of(old, new).in_place == (Change("a", ("gpus",)),)


def test_settings_that_an_engine_cannot_change_are_for_the_next_start():
    old = deck_file(spec("a"))
    new = deck_file(spec("a"), settings=DeckSettings(log_dir="elsewhere", keep_free=1))
    plan = plan_of(old, new)
    assert plan.settings_now == (Change("keep_free", ("0", "1")),)
    assert plan.settings_later == (Change("log_dir", ("logs", "elsewhere")),)
    assert settings_for_now(old.settings, new.settings, ()) == DeckSettings(keep_free=1)


def test_settings_are_told_as_the_file_has_them():
    old = deck_file(spec("a"), settings=DeckSettings(halt=Halt("soon", early=3), budget=Budget(0.5)))
    new = deck_file(spec("a"), settings=DeckSettings(disk_mib=80 * 1024, foreign_quiet_s=300.0))
    assert {change.name: change.what for change in plan_of(old, new).settings_now} == {
        "halt": ("soon,early=3", "none"),
        "budget": ("gpu_hours = 0.5", "none"),
        "disk": ("none", "80.0 GiB"),
        "foreign_quiet": ("1m00s", "5m00s"),
    }


def test_tasks_that_the_selection_leaves_out_are_not_spoken_of():
    old = deck_file(spec("a"), spec("b"), selected={"a"})
    new = deck_file(spec("a"), spec("c"), selected={"a"})
    assert not plan_of(old, new)


def test_another_order_is_a_change():
    old = deck_file(spec("a"), spec("b"))
    plan = plan_of(old, deck_file(spec("b"), spec("a")))
    assert plan.reordered
    assert words.summary(plan) == "another order"


def test_a_plan_in_words_names_the_first_tasks_and_counts_the_rest():
    old = deck_file(spec("a"))
    plan = plan_of(old, deck_file(spec("a"), *(spec(f"n{number}") for number in range(7))))
    assert words.summary(plan) == "7 added"
    assert words.lines(plan) == ["added                 n0, n1, n2, n3, n4 and 2 more: they start when they can"]


def test_a_plan_without_changes_says_so():
    old = deck_file(spec("a"))
    assert words.lines(plan_of(old, old)) == ["nothing changes"]


def test_a_task_that_has_ended_since_the_plan_was_made_counts_as_finished():
    old = deck_file(spec("a"), spec("b"), spec("c"))
    deck = deck_of(old, running=("a", "b"))
    other = spec("c", fingerprint="new")
    new = deck_file(spec("a", fingerprint="new"), other)
    plan = make_plan(deck, old, new, "digest")
    assert words.summary(plan) == "1 changed, not started; 1 changed, running; 1 gone, running"
    for name in ("a", "b"):
        deck.move(deck.by_name[name], Cancelled())
    deck.move(deck.by_name["c"], QUEUED)
    assert words.summary(as_they_stand(deck, plan)) == "1 changed, not started; 1 changed, ended; 1 gone, ended"
    assert as_they_stand(deck, plan) == make_plan(deck, old, new, "digest")


def test_other_rules_for_a_task_that_has_ended_since_the_plan_was_made_take_effect_at_once():
    old = deck_file(spec("a"))
    deck = deck_of(old, running=("a",))
    new = deck_file(spec("a", resources=Resources(gpus=2)))
    plan = make_plan(deck, old, new, "digest")
    assert words.summary(plan) == "1 changed, running"
    deck.move(deck.by_name["a"], Cancelled())
    assert words.summary(as_they_stand(deck, plan)) == "1 other rules"
    assert as_they_stand(deck, plan) == make_plan(deck, old, new, "digest")
