"""What the rungs of on_oom and on_timeout may hold, what of it is refused, and what a task is on both."""

from __future__ import annotations

import pytest

from gpudeck.engine.core.spec import Asks, TaskSpec
from gpudeck.engine.errors import TaskFileError
from gpudeck.engine.ports import GpuInfo, Inventory
from tests.inside.taskfile import check_fit
from tests.taskfile.loading import deck, problems, tasks

GIB = 1024
TASK = '[vars]\nbs = 64\nlong = "9h"\n[[task]]\nname = "a"\ncommand = ["t", "{bs}"]\ntimeout = "1h"\n'
ON_SLURM = '[deck]\nbackend = "slurm"\n'


def only(body: str, head: str = "") -> TaskSpec:
    (task,) = tasks(head + TASK + body).values()
    return task


def test_a_rung_asks_for_memory_time_and_gpus():
    asks = 'gpus = 2, gpu_memory = "10GiB", memory = "64GiB", timeout = "4h"'
    task = only(f"on_oom = [{{ {asks} }}]\non_timeout = [{{ {asks} }}]\n")
    assert task.on_oom == task.on_timeout == (Asks(2, 10 * GIB, 64 * GIB, 4 * 3600.0),)


def test_a_rung_says_to_slurm_what_the_task_says_and_more():
    body = 'slurm = { qos = "short", partition = "a" }\non_timeout = [{ slurm = { qos = "long", time = "2-0" } }]\n'
    task = only(body, ON_SLURM)
    assert dict(task.asking(0, 1).extras.slurm) == {"qos": "long", "partition": "a", "time": 2 * 86400.0}


def test_a_rung_may_take_its_values_from_vars():
    assert only('on_timeout = [{ timeout = "{long}" }]\n').on_timeout == (Asks(timeout_s=9 * 3600.0),)


def test_what_a_rung_of_on_timeout_executes_is_changed_further_by_on_oom():
    ladders = 'on_timeout = [{ env = { A = "late" }, vars = { bs = 1 } }]\non_oom = [{ vars = { bs = 8 } }]\n'
    task = only(ladders + 'resume_command = ["r", "{bs}"]\n')
    found = [(work.command, work.env) for work in (task.on_rung(0, 1), task.on_rung(1, 0), task.on_rung(1, 1))]
    assert found == [(("t", "1"), (("A", "late"),)), (("t", "8"), ()), (("t", "8"), (("A", "late"),))]
    resume = task.on_step(1).resume
    assert resume is not None
    assert (resume.on_rung(0), resume.on_rung(1)) == (("r", "1"), ("r", "8"))


def test_a_rung_that_asks_for_more_time_alone_keeps_no_command_of_its_own():
    assert only('on_timeout = [{ timeout = "4h" }]\non_oom = [{ vars = { bs = 8 } }]\n').steps == ()


def test_a_rung_of_on_timeout_goes_over_a_profile():
    profile = '[[gpu_profile]]\nmin_memory = "40GiB"\nvars = { bs = 128 }\nenv = { CARD = "1" }\n'
    task = only("on_timeout = [{ vars = { bs = 8 } }]\n" + profile).on_card(40 * GIB)
    assert (task.on_rung(0, 0).command, task.on_rung(0, 1).command) == (("t", "128"), ("t", "8"))


def test_rungs_make_no_other_task_of_it():
    plain = only("").fingerprint
    assert (
        only('on_timeout = [{ timeout = "4h", env = { A = "1" } }]\non_oom = [{ memory = "1GiB" }]\n').fingerprint
        == plain
    )


def test_a_rung_with_more_gpus_stops_a_launcher_as_one_of_several():
    task = only('launch = "auto"\non_oom = [{ gpus = 2 }]\n')
    assert (task.policy.stop_scope, task.asking(1, 0).policy.stop_scope) == ("group", "leader")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('on_timeout = [{ timeout = "1h" }]', "on_timeout rung 1 changes neither"),
        ('on_timeout = [{ timeout = "2h" }, {}]', "on_timeout rung 2 changes neither"),
        ('memory = "1GiB"\non_oom = [{ memory = "1GiB" }]', "on_oom rung 1 changes neither"),
        ('on_timeout = [{ timeout = "none" }]', "on_timeout rung 1: timeout must be a duration"),
        ('on_timeout = [{ time = "2h" }]', 'on_timeout rung 1: has the unknown key "time"'),
        ("on_oom = [{ gpus = 0 }]", "on_oom rung 1: gpus must be at least 1, got 0"),
        ("gpus = 0\non_oom = [{ gpus = 1 }]", "on_oom rung 1: gpus = 1, of a task with gpus = 0"),
        ('gpus = "all"\non_oom = [{ gpus = 1 }]', 'on_oom rung 1: gpus = 1, of a task with gpus = "all"'),
        ('gpu_ids = "0-1"\non_oom = [{ gpus = 4 }]', "on_oom rung 1: gpus = 4, but gpu_ids names only 2"),
        ('on_oom = [{ slurm = { qos = "a", quos = "b" } }]', 'on_oom rung 1: slurm has the unknown key "quos"'),
        ("on_oom = [{ slurm = { max_submitted = 3 } }]", "on_oom rung 1: slurm.max_submitted is one for all tasks"),
        ('warn_signal = "USR1"\non_oom = [{ timeout = "1m" }]', "on_oom rung 1: warn_signal comes 5m before the end"),
        ("on_timeout = [{ vars = { sb = 1 } }]", "on_timeout rung 1: changes sb, which is in neither"),
        ('on_timeout = [{ vars = { bs = "{x" } }, { timeout = "none" }]', "on_timeout rung 2: timeout must"),
    ],
)
def test_a_rung_that_makes_no_sense_is_refused(body: str, problem: str):
    (line,) = problems(TASK + body + "\n")
    assert f'task "a": {problem}' in line


def test_on_timeout_says_nothing_without_a_timeout():
    text = TASK.replace('timeout = "1h"\n', "") + 'on_timeout = [{ timeout = "4h" }]\n'
    assert "on_timeout says nothing without a timeout" in problems(text)[0]
    assert only('on_timeout = [{ slurm = { time = "4h" } }]\n', ON_SLURM)


def test_more_gpus_on_a_rung_need_a_gres_that_follows_them():
    head, body = ON_SLURM + '[slurm]\ngres = "gpu:GRES"\n', "gpus = 2\non_oom = [{ gpus = 4 }]\n"
    (line,) = problems(head.replace("GRES", "2") + TASK + body)
    assert "on_oom rung 1: gpus = 4, but slurm.gres asks for 2: write {num_gpus} there" in line
    assert only(body, head.replace("GRES", "{num_gpus}")).asking(1, 0).resources.gpus == 4


def test_gpu_memory_of_a_rung_is_named_among_what_says_nothing_on_slurm():
    (warning,) = deck(ON_SLURM + TASK + 'on_oom = [{ gpu_memory = "10GiB" }]\n').warnings
    assert "on_oom.gpu_memory" in warning


BOX = Inventory(tuple(GpuInfo(f"GPU-{index}", index, "A40", 45 * GIB) for index in range(2)), hardware=True)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("on_oom = [{ vars = { bs = 8 } }, { gpus = 3 }]", "on_oom rung 2: gpus = 3, but the deck has only 2"),
        (
            'on_timeout = [{ gpu_memory = "80GiB" }]',
            "on_timeout rung 1: gpu_memory = 80.0 GiB, but the largest GPU has",
        ),
    ],
)
def test_a_rung_that_no_gpu_of_the_box_can_hold_is_refused(body: str, problem: str):
    with pytest.raises(TaskFileError) as caught:
        check_fit(deck(TASK + body + "\n"), BOX)
    assert problem in caught.value.problems[0]


def test_two_rungs_that_only_together_no_gpu_can_hold_are_refused():
    boxed = Inventory((GpuInfo("GPU-0", 0, "A40", 45 * GIB), GpuInfo("GPU-1", 1, "T4", 15 * GIB)), hardware=True)
    with pytest.raises(TaskFileError) as caught:
        check_fit(deck(TASK + 'on_oom = [{ gpus = 2 }]\non_timeout = [{ gpu_memory = "40GiB" }]\n'), boxed)
    assert "on_oom rung 1 with on_timeout rung 1: gpu_memory" in caught.value.problems[0]
