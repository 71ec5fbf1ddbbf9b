"""`retry --set`: a task as it would be if the file had other values for it alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckFile, Work
from tests.inside.taskfile import RunOptions
from tests.taskfile.loading import deck

GIB = 1024
SWEEP = """
[vars]
lr = 0.1
out = "runs/{lr}"
unused = 1
cards = 1
[[gpu_profile]]
min_memory = "80GiB"
vars = { lr = 0.4 }
[[task]]
name = "t-{bs}"
gpus = "{cards}"
command = "train {bs} {lr} {out}"
env = { BATCH = "{bs}" }
outputs = ["{out}/{bs}"]
resume_command = "resume {bs}"
on_oom = [{ vars = { bs = 8 } }]
matrix.bs = [32, 64]
[[task]]
name = "eval"
command = "eval {out}"
after = ["t-*"]
"""


def with_values(values: Mapping[str, str], name: str = "t-64") -> DeckFile:
    return deck(SWEEP, RunOptions(retried={name: values}))


def test_other_values_stand_in_all_that_a_task_executes_and_leaves_behind() -> None:
    task = with_values({"bs": "48", "lr": "0.2"}).tasks[1]
    assert (task.name, task.params, task.given) == ("t-64", {"bs": "48"}, (("bs", "48"), ("lr", "0.2")))
    assert task.work == Work("train 48 0.2 runs/0.2", (("BATCH", "48"),))
    assert task.outputs == (str(Path.cwd() / "runs/0.2/48"),)
    assert task.resume is not None
    assert task.resume.command == "resume 48"


def test_values_of_a_rung_go_before_those_of_a_retry_and_these_before_those_of_a_card() -> None:
    task = with_values({"bs": "48", "lr": "0.2"}).tasks[1]
    assert task.ladder[0].command == "train 8 0.2 runs/0.2"
    assert task.on_card(80 * GIB).work.command == "train 48 0.2 runs/0.2"
    assert deck(SWEEP).tasks[1].on_card(80 * GIB).work.command == "train 64 0.4 runs/0.4"


def test_other_tasks_are_as_they_were_and_the_one_with_other_values_is_other_work() -> None:
    plain, given = deck(SWEEP).tasks, with_values({"lr": "0.2"}).tasks
    assert [one == other for one, other in zip(plain, given, strict=True)] == [True, False, True]
    assert plain[1].fingerprint != given[1].fingerprint


def test_the_values_of_the_file_are_no_others() -> None:
    assert with_values({"bs": "64", "lr": "0.1"}).tasks == deck(SWEEP).tasks


@pytest.mark.parametrize(
    ("values", "name", "why"),
    [
        ({"batch": "1"}, "t-64", "changes batch, which is in neither matrix nor [vars]"),
        ({"task": "x"}, "t-64", "changes task: {task} means something already"),
        ({"unused": "2"}, "t-64", "changes unused, which neither its command nor its outputs have"),
        ({"bs": "2", "unused": "2"}, "t-64", "changes unused, which neither its command nor its outputs have"),
        ({"cards": "2"}, "t-64", "changes cards, which neither its command nor its outputs have"),
        ({"bs": "2"}, "eval", "changes bs, which is in neither matrix nor [vars]"),
    ],
)
def test_what_means_nothing_to_a_task_is_told_and_the_file_holds(values: dict[str, str], name: str, why: str) -> None:
    found = with_values(values, name)
    assert why in found.unfit[name]
    told = f"tasks.toml: {name} has the file's values: its `retry --set` {why}"
    assert [warning for warning in found.warnings if warning.startswith(told)]
    assert found.tasks == deck(SWEEP).tasks
