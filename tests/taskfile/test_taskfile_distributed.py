"""[distributed]: what it tells tasks, and that it is part of what they are."""

from __future__ import annotations

import pytest

from tests.inside.taskfile import RunOptions
from tests.taskfile.loading import problems, tasks

HEAD = '[distributed]\nstrategy = "ddp"\ntimeout = "45m"\n'
TASK = '[[task]]\nname = "a"\ncommand = "t"\n'


def told(text: str, name: str = "a", options: RunOptions | None = None) -> dict[str, str | None]:
    return {key.removeprefix("GPUDECK_DIST_"): value for key, value in tasks(text, options)[name].work.env}


def test_what_is_said_for_all_reaches_every_task_and_what_is_not_said_none() -> None:
    assert told(HEAD + TASK) == {"STRATEGY": "ddp", "TIMEOUT": "2700"}
    assert told(TASK) == {}


def test_every_key_is_told_as_scripts_read_it() -> None:
    every = 'backend = "gloo"\nfind_unused_parameters = true\nmixed_precision = "bf16"\n'
    assert told(HEAD + every + TASK) == {
        "STRATEGY": "ddp",
        "TIMEOUT": "2700",
        "BACKEND": "gloo",
        "FIND_UNUSED_PARAMETERS": "true",
        "MIXED_PRECISION": "bf16",
    }


def test_a_switch_that_is_off_is_told_as_off() -> None:
    assert told("[distributed]\nfind_unused_parameters = false\n" + TASK) == {"FIND_UNUSED_PARAMETERS": "false"}


def test_a_tasks_own_goes_over_defaults_and_these_over_the_files() -> None:
    text = HEAD + '[defaults]\ndistributed = { timeout = "1h", backend = "gloo" }\n' + TASK
    assert told(text + 'distributed.timeout = "90s"\n') == {"STRATEGY": "ddp", "BACKEND": "gloo", "TIMEOUT": "90"}


def test_a_profile_has_its_own() -> None:
    text = HEAD + '[profile.smoke.distributed]\nstrategy = "single"\n' + TASK
    assert told(text, options=RunOptions(profile="smoke"))["STRATEGY"] == "single"


def test_a_tasks_env_has_the_last_word() -> None:
    assert told(HEAD + TASK + 'env = { GPUDECK_DIST_STRATEGY = "dp" }\n')["STRATEGY"] == "dp"


def test_placeholders_stand_for_vars_and_for_the_matrix() -> None:
    text = '[vars]\nt = "2m"\n[distributed]\ntimeout = "{t}"\n[[task]]\nname = "a-{how}"\ncommand = "t"\n'
    text += 'distributed = { strategy = "{how}", find_unused_parameters = "{unused}" }\n'
    text += 'matrix.case = [{ how = "dp", unused = false }, { how = "ddp", unused = true }]\n'
    assert told(text, "a-dp") == {"TIMEOUT": "120", "STRATEGY": "dp", "FIND_UNUSED_PARAMETERS": "false"}
    assert told(text, "a-ddp")["STRATEGY"] == "ddp"


def test_another_strategy_is_other_work_unless_it_is_ignored() -> None:
    def fingerprints(more: str) -> set[str]:
        texts = (HEAD + TASK + more, HEAD.replace("ddp", "dp") + TASK + more)
        return {tasks(text)["a"].fingerprint for text in texts}

    assert len(fingerprints("")) == 2
    assert len(fingerprints('fingerprint_ignore = ["GPUDECK_DIST_*"]\n')) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            HEAD.replace("ddp", "fsdp") + TASK,
            'tasks.toml:2: [distributed]: strategy must be "auto", "single", "dp" or "ddp", got "fsdp": did you mean',
        ),
        ('[distributed]\nstrategie = "ddp"\n' + TASK, 'tasks.toml:2: [distributed]: unknown key "strategie": did you'),
        (TASK + 'distributed.backend = "mpi"\n', 'tasks.toml:4: task "a": distributed.backend must be'),
        (TASK + "distributed.backends = 3\n", 'tasks.toml:4: task "a": distributed has the unknown key "backends"'),
        (
            TASK.replace('"a"', '"{t}"') + 'distributed.strategy = "{t}"\nmatrix.t = ["dp", "no"]\n',
            'tasks.toml:4: task "no": distributed.strategy must be',
        ),
        (TASK + 'distributed = "ddp"\n', 'tasks.toml:4: task "a": distributed must be a table'),
    ],
)
def test_mistakes_are_told_once_and_where_they_are(text: str, expected: str) -> None:
    found = problems(text)
    assert [line[: len(expected)] for line in found] == [expected]


def test_a_launcher_is_asked_to_end_and_not_each_of_its_ranks() -> None:
    def scope(more: str) -> str:
        return tasks(TASK + more)["a"].policy.stop_scope

    assert scope('launch = "torchrun"\n') == scope('launch = "accelerate"\n') == "leader"
    assert (scope('launch = "auto"\ngpus = 2\n'), scope('launch = "auto"\n'), scope("")) == ("leader", "group", "group")
    assert scope('launch = "torchrun"\nstop_scope = "group"\n') == "group"
