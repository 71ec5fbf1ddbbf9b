"""Tables that one placeholder stands for, and variables that follow others on the rungs of on_oom."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.spec import TaskSpec, Work
from tests.inside.taskfile import RunOptions, expanded_with, load


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tasks(text: str) -> tuple[TaskSpec, ...]:
    Path("tasks.toml").write_text(text)
    return load("tasks.toml", environ={"API_KEY": "sesame"}).tasks


def env(task: TaskSpec | Work) -> dict[str, str | None]:
    return dict((task.work if isinstance(task, TaskSpec) else task).env)


pytestmark = pytest.mark.usefixtures("folder")


def test_an_environment_may_be_a_table_of_vars():
    found = tasks(
        '[vars]\nbase = "/data"\ne = { ROOT = "{base}/x", BRACES = "{{seed}}", UNSET = false }\n'
        '[[task]]\nname = "a-{seed}"\ncommand = "x"\nenv = "{e}"\nmatrix.seed = [1]\n'
    )
    assert env(found[0]) == {"ROOT": "/data/x", "BRACES": "{seed}", "UNSET": None}


def test_an_environment_may_differ_between_the_tasks_of_a_matrix():
    text = """[defaults]
env = { SHARED = "1", MODE = "plain" }
[[task]]
name = "a-{how}-{seed}"
command = ["t", "{how}", "{seed}"]
env = "{e}"
matrix.case = [{ how = "fast", e = { MODE = "fast", WANDB_MODE = "off" } }, { how = "slow", e = {} }]
matrix.seed = [1, 2]
"""
    found = {task.name: task for task in tasks(text)}
    assert env(found["a-fast-2"]) == {"SHARED": "1", "MODE": "fast", "WANDB_MODE": "off"}
    assert env(found["a-slow-1"]) == {"SHARED": "1", "MODE": "plain"}
    assert found["a-slow-2"].work.command == ("t", "slow", "2")
    plain = {task.name: task for task in tasks(text.replace(', WANDB_MODE = "off"', "").replace("{}", '{ B = "1" }'))}
    assert plain["a-fast-1"].fingerprint == found["a-fast-1"].fingerprint
    assert plain["a-slow-1"].fingerprint != found["a-slow-1"].fingerprint


def test_a_profile_may_have_its_environment_from_vars_where_defaults_have_one():
    Path("tasks.toml").write_text(
        '[vars]\ne = { MODE = "fast" }\n[defaults]\nenv = { SHARED = "1" }\n'
        '[profile.p]\ndefaults = { env = "{e}" }\n[[task]]\nname = "a"\ncommand = "x"\n'
    )
    assert env(load("tasks.toml", RunOptions(profile="p"), environ={}).tasks[0])["MODE"] == "fast"


def test_shards_have_their_variables_beside_a_table_of_their_own():
    found = tasks(
        '[[task]]\nname = "a-{n}"\ncommand = "x"\nshards = 2\nenv = "{e}"\n'
        'matrix.case = [{ n = 1, e = { A = "1" } }, { n = 2, e = { B = "2" } }]\n'
    )
    assert env(found[3]) == {"B": "2", "GPUDECK_SHARD": "1", "GPUDECK_SHARDS": "2"}
    assert len({task.fingerprint for task in found}) == 4


def test_watch_and_metrics_merge_with_the_defaults_when_a_placeholder_stands_for_them():
    found = tasks(
        '[vars]\nw = { silent = "30m" }\nm = { acc = { regex = "acc=(.*)" } }\n'
        '[defaults]\nwatch = { pattern = "nan" }\nmetrics = { loss = { regex = "loss=(.*)" } }\n'
        '[[task]]\nname = "a"\ncommand = "x"\nwatch = "{w}"\nmetrics = "{m}"\n'
    )
    watch = found[0].extras.watch
    assert watch is not None
    assert (watch.silent_s, watch.pattern) == (1800, "nan")
    assert [metric.name for metric in found[0].extras.metrics] == ["loss", "acc"]


def test_a_ladder_may_be_a_list_of_vars_or_its_rungs_and_their_parts_may_be_tables():
    text = """[vars]
bs = 32
small = { bs = 8 }
variables = { BATCH = "8" }
last = { env = { BATCH = "1" } }
ladder = [{ vars = { bs = 16 } }, { env = { BATCH = "8" } }]
[[task]]
name = "a"
command = ["t", "{bs}"]
on_oom = LADDER
"""
    whole, parts = (tasks(text.replace("LADDER", ladder))[0].ladder for ladder in (
        '"{ladder}"', '[{ vars = "{small}", env = "{variables}" }, "{last}"]',
    ))  # fmt: skip
    assert [(rung.command, env(rung)) for rung in whole] == [(("t", "16"), {}), (("t", "32"), {"BATCH": "8"})]
    assert [(rung.command, env(rung)) for rung in parts] == [
        (("t", "8"), {"BATCH": "8"}), (("t", "32"), {"BATCH": "1"}),
    ]  # fmt: skip


def test_a_ladder_may_differ_between_the_tasks_of_a_matrix():
    text = """[[task]]
name = "a-{model}"
command = ["t", "{model}", "{bs}"]
resume_command = ["t", "{model}", "{bs}", "--resume"]
on_oom = "{ladder}"
matrix.case = [
    { model = "large", bs = 32, ladder = [{ vars = { bs = 16 } }, { vars = { bs = 8 } }] },
    { model = "tiny", bs = 512, ladder = [] },
]
"""
    large, tiny = tasks(text)
    assert [rung.command for rung in large.ladder] == [("t", "large", "16"), ("t", "large", "8")]
    assert tiny.ladder == ()
    assert large.resume is not None
    assert tiny.resume is not None
    assert large.resume.on_rung(2) == ("t", "large", "8", "--resume")
    assert tiny.resume.on_rung(0) == ("t", "tiny", "512", "--resume")


def test_vars_that_are_made_of_others_follow_them_on_a_rung():
    text = """[vars]
bs = 32
out = "run-{bs}"
log = "{out}/log"
flags = "--amp"
[[task]]
name = "a-{seed}"
command = ["t", "{bs}", "{log}", "{flags}"]
env = { OUT = "{out}" }
resume_command = ["t", "--resume", "{out}"]
matrix.seed = [1, 2]
on_oom = [
    { vars = { bs = 16 } },
    { vars = { bs = 8, flags = "{flags} --checkpoint={bs}" } },
    { vars = { out = "small" } },
]
"""
    task = tasks(text)[1]
    assert [(rung.command[1:], env(rung)["OUT"]) for rung in (task.work, *task.ladder)] == [
        (("32", "run-32/log", "--amp"), "run-32"),
        (("16", "run-16/log", "--amp"), "run-16"),
        (("8", "run-8/log", "--amp --checkpoint=8"), "run-8"),
        (("32", "small/log", "--amp"), "small"),
    ]
    assert task.resume is not None
    assert task.resume.on_rung(1) == ("t", "--resume", "run-16")


def test_other_values_move_only_the_vars_that_are_made_of_them():
    written = {"a": 1, "b": "{a}{a}", "c": "{b}!", "d": "{env.HOST}", "list": ["{a}", "x"]}
    filled = {"a": 1, "b": "11", "c": "11!", "d": "kept", "list": [1, "x"]}
    assert expanded_with({"a": 2}, written, filled, {}) == {
        "a": 2, "b": "22", "c": "22!", "d": "kept", "list": [2, "x"],
    }  # fmt: skip
    assert expanded_with({}, written, filled, {}) == filled
    assert expanded_with({"new": "{a}"}, written, filled, {})["new"] == 1
