"""[[gpu_profile]]: what tasks are on cards of one size or another."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.spec import TaskSpec, Work
from tests.inside.taskfile import RunOptions, load
from tests.taskfile.loading import problems, tasks

GIB = 1024
HEAD = """
[vars]
bs = 8
opts = "--bs {bs}"
[[gpu_profile]]
min_memory = "40GiB"
vars = { bs = 16 }
[[gpu_profile]]
min_memory = "80GiB"
vars = { bs = 32 }
env = { CKPT = "off" }
"""
TASK = '[[task]]\nname = "a"\ncommand = "train {opts}"\n'


def only(text: str = HEAD + TASK, options: RunOptions | None = None) -> TaskSpec:
    (task,) = tasks(text, options).values()
    return task


@pytest.mark.parametrize(
    ("card_mib", "work"),
    [
        (0, Work("train '--bs 8'")),
        (24 * GIB, Work("train '--bs 8'")),
        (40 * GIB, Work("train '--bs 16'")),
        (48 * GIB, Work("train '--bs 16'")),
        (81_559, Work("train '--bs 32'", (("CKPT", "off"),))),
        (141 * GIB, Work("train '--bs 32'", (("CKPT", "off"),))),
    ],
)
def test_the_largest_profile_that_a_card_has_the_memory_for_gives_the_values(card_mib: int, work: Work) -> None:
    assert only().on_card(card_mib).work == work


def test_the_same_task_on_another_card_is_no_other_task() -> None:
    task = only()
    assert task.on_card(80 * GIB).fingerprint == task.fingerprint == only("[vars]\nopts='--bs 8'\n" + TASK).fingerprint


def test_a_profile_changes_an_axis_of_a_matrix_where_a_task_has_it() -> None:
    text = HEAD + TASK + '[[task]]\nname = "b-{bs}"\ncommand = ["t", "{bs}"]\nmatrix.bs = [1]\n'
    found = tasks(text.replace("bs = 8\n", 'x = "1"\n').replace("--bs {bs}", "{x}"))
    assert found["b-1"].on_card(40 * GIB).work.command == ("t", "16")
    assert found["a"].card(40 * GIB) is not None, "the other profile sets a variable"


def test_a_task_that_no_profile_changes_is_the_same_on_all_cards() -> None:
    text = HEAD.replace('env = { CKPT = "off" }\n', "") + '[[task]]\nname = "b"\ncommand = "x"\n'
    assert only(text).cards == ()


def test_the_rungs_of_on_oom_go_over_a_profile() -> None:
    task = only(HEAD + TASK + 'on_oom = [{ vars = { bs = 4 } }, { env = { HALF = "1" } }]\n').on_card(80 * GIB)
    assert task.on_rung(1) == Work("train '--bs 4'", (("CKPT", "off"),))
    assert task.on_rung(2) == Work("train '--bs 32'", (("CKPT", "off"), ("HALF", "1")))


def test_what_resumes_has_the_values_of_the_profile() -> None:
    task = only(HEAD + TASK + 'resume_command = "resume {bs}"\nresume_when = "ckpt-*"\n').on_card(40 * GIB)
    assert task.resume is not None
    assert (task.resume.command, [Path(glob).name for glob in task.resume.when]) == ("resume 16", ["ckpt-*"])


def test_shards_keep_their_numbers_on_every_card() -> None:
    found = tasks(HEAD + TASK + "shards = 2\n")
    assert dict(found["a-shard1"].on_card(40 * GIB).work.env)["GPUDECK_SHARD"] == "1"


def test_what_the_command_line_sets_goes_over_profiles() -> None:
    assert only(options=RunOptions(set={"bs": "2"})).on_card(80 * GIB).work.command == "train '--bs 2'"


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[[gpu_profile]]\nmin_memory = '9GiB'\nvars.bacth = 1\n",
         "tasks.toml:7: [[gpu_profile]]: vars.bacth is in neither [vars] nor any matrix: did you mean batch?"),
        ("[[gpu_profile]]\nmin_memory = '9GiB'\nvar.bs = 1\n",
         'tasks.toml:7: [[gpu_profile]]: unknown key "var": did you mean vars?'),
        ("[[gpu_profile]]\nvars.bs = 1\n", 'tasks.toml:5: [[gpu_profile]]: min_memory is missing: "80GiB"'),
        ("[[gpu_profile]]\nmin_memory = '9GiB'\n", "tasks.toml:5: [[gpu_profile]]: changes nothing: say vars or env"),
        ("[[gpu_profile]]\nmin_memory = 9\nvars.bs = 1\n",
         'tasks.toml:6: [[gpu_profile]]: min_memory needs a unit: write "9GiB" or "9MiB"'),
        ("[[gpu_profile]]\nmin_memory = '9GiB'\nvars.bs = 1\n" * 2,
         "tasks.toml:8: [[gpu_profile]]: there is another one for 9GiB"),
        ("[gpu_profile]\nmin_memory = '9GiB'\n",
         "tasks.toml:5: write [[gpu_profile]] with two brackets: there can be many"),
    ],
)  # fmt: skip
def test_mistakes_in_a_profile_are_told_with_their_line(table: str, problem: str) -> None:
    assert problem in problems('\n[vars]\nbs = 8\nbatch = "{bs}"\n' + table + TASK.replace("{opts}", "{bs}"))


def test_profiles_that_are_no_tables_are_refused_with_their_line() -> None:
    found = problems("gpu_profile = [80]\n" + TASK.replace("{opts}", "1"))
    assert found == ["tasks.toml:1: write [[gpu_profile]] with two brackets: there can be many"]


SWEEP = """
[[gpu_profile]]
min_memory = "80GiB"
vars = { bs = 32 }
[[task]]
name = "a-{%s}"
command = "train --bs {bs}"
"""


def warned(text: str) -> tuple[str, ...]:
    Path("tasks.toml").write_text(text)
    return load("tasks.toml", environ={}).warnings


def test_a_profile_that_takes_a_sweep_its_axis_is_warned_of_with_both_names() -> None:
    assert warned(SWEEP % "bs" + "matrix.bs = [8, 16]\n") == (
        'tasks.toml:4: [[gpu_profile]] 80GiB: sets {bs}, in which tasks of "a-{bs}" differ by its matrix: '
        "on such cards they are the same work",
    )


def test_a_profile_of_a_value_that_goes_with_another_of_its_matrix_is_right() -> None:
    assert warned(SWEEP % "lr" + "matrix.case = [{ lr = 1, bs = 4 }, { lr = 2, bs = 8 }]\n") == ()


def test_a_profile_of_an_axis_with_one_value_is_right() -> None:
    assert warned(SWEEP % "bs" + "matrix.bs = [8]\n") == ()
