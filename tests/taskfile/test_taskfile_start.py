"""What is left to do between a loaded deck and a process: fill in, fit, refuse."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckFile, OwnChecks, Progress, TaskSpec
from gpudeck.engine.errors import TaskFileError
from gpudeck.engine.ports import GpuInfo, Inventory
from tests.inside.taskfile import RunOptions, RuntimeValues, check_environment, check_fit, finish, load, refuse_later


def deck(text: str, options: RunOptions | None = None) -> DeckFile:
    """Loaded in the present folder, which tests make a temporary one."""
    Path("tasks.toml").write_text(text)
    return load("tasks.toml", options, environ={"PATH": os.environ["PATH"], "API_KEY": "sesame"})


def task(body: str) -> TaskSpec:
    return deck(f'[[task]]\nname = "a"\n{body}\n').tasks[0]


VALUES = RuntimeValues(
    attempt=3,
    gpu_ids=("7", "6"),
    cpus=4,
    run_dir="/runs/my run",
    log_dir="/logs",
    python="/usr/bin/python3",
    environ={"API_KEY": "se same"},
)


def test_run_time_placeholders_are_filled_in_a_list():
    spec = task('command = ["x", "{attempt}", "{gpu_ids}", "{num_gpus}", "{cpus}", "{run_dir}", "{log_dir}/a"]')
    assert finish(spec, spec.work, VALUES)[0] == ("x", "3", "7,6", "2", "4", "/runs/my run", "/logs/a")


def test_run_time_placeholders_are_quoted_in_a_text():
    spec = task('command = "x {attempt} {run_dir} {env.API_KEY}"')
    argv, _ = finish(spec, spec.work, VALUES)
    assert argv[1:] == ("-c", "x 3 '/runs/my run' 'se same'")


def test_the_gpus_of_a_cpu_task_are_empty_inside_quotes_and_outside():
    spec = task("""command = 'echo "[{gpu_ids}]" [{gpu_ids}]'""")
    argv, _ = finish(spec, spec.work, RuntimeValues(1))
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "[] []\n"


def test_python_is_that_of_the_task():
    spec = task('command = ["{python}"]\npython = "/bin/sh"')
    assert finish(spec, spec.work, VALUES)[0] == ("/bin/sh",)


def test_variables_are_filled_and_unset_ones_stay_unset():
    spec = task('command = "x"\nenv = { A = "{attempt}", B = false, C = "plain", D = "{{attempt}}" }')
    assert finish(spec, spec.work, VALUES)[1] == (("A", "3"), ("B", None), ("C", "plain"), ("D", "{attempt}"))


def test_a_command_with_nothing_left_to_fill_is_passed_on_as_it_is():
    spec = task('command = ["a", "b"]\nenv.A = "1"')
    argv, env = finish(spec, spec.work, VALUES)
    assert argv is spec.work.command
    assert env is spec.work.env


def test_run_id_is_the_same_for_each_attempt_and_differs_between_works():
    one, other = task('command = ["x", "{run_id}"]'), task('command = ["y", "{run_id}"]')
    ids = [finish(spec, spec.work, RuntimeValues(attempt))[0][1] for spec in (one, other) for attempt in (1, 2)]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_a_text_command_runs_in_a_real_shell_with_its_values():
    spec = deck(
        '[[task]]\nname = "a{i}"\nmatrix.i = [1]\nmatrix.text = ["$HOME `id` \\"x\\" \'y\'"]\n'
        "command = '''set -o pipefail; printf '%s|' {text} a{i}b {attempt} {run_dir} ${HOME:+set} | cat'''\n"
    ).tasks[0]
    argv, _ = finish(spec, spec.work, VALUES)
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert printed == "$HOME `id` \"x\" 'y'|a1b|3|/runs/my run|set|"


BOX = Inventory(tuple(GpuInfo(f"GPU-{index}abc", index, "A40", 45_000) for index in range(4)), hardware=True)
NOTHING = Inventory(())


def lines(text: str, inventory: Inventory = BOX, options: RunOptions | None = None) -> list[str]:
    made = deck(text, options)
    try:
        check_fit(made, inventory)
    except TaskFileError as error:
        return list(error.problems)
    return []


def entry(body: str) -> str:
    return f'[[task]]\nname = "a"\ncommand = "x"\n{body}\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (entry("gpus = 4"), []),
        (entry("gpus = 5"), ['tasks.toml:1: task "a": gpus = 5, but the deck has only 4']),
        (entry('gpus = "all"'), []),
        ('[deck]\ngpus = [3, 2]\n' + entry("gpus = 3"), ['tasks.toml:3: task "a": gpus = 3, but the deck has only 2']),
        (
            '[deck]\ngpus = "0-4"\n' + entry(""),
            ["tasks.toml:2: [deck]: gpus names GPU 4, but this box has only 0 to 3"],
        ),
        (
            '[deck]\ngpus = ["GPU-9"]\n' + entry(""),
            ["tasks.toml:2: [deck]: gpus names GPU GPU-9, but this box has only 0 to 3"],
        ),
        ('[deck]\ngpus = ["GPU-1abc"]\n' + entry(""), []),
        (
            '[deck]\ngpus = ["GPU-1a", "1"]\n' + entry(""),
            ["tasks.toml:2: [deck]: gpus names one GPU twice: GPU-1a and 1"],
        ),
        (
            '[deck]\nslots_per_gpu = { "0-7" = 2 }\n' + entry(""),
            [
                f"tasks.toml:2: [deck]: slots_per_gpu names GPU {gpu}, but this box has only 0 to 3"
                for gpu in range(4, 8)
            ],
        ),
        (
            "[deck]\nkeep_free = 2\n" + entry("gpus = 3"),
            ['tasks.toml:3: task "a": gpus = 3, but keep_free = 2 leaves only 2 of 4'],
        ),
        (entry("gpu_ids = [9]"), ['tasks.toml:1: task "a": gpu_ids names GPU 9, but this box has only 0 to 3']),
        (
            '[deck]\ngpus = "0-1"\n' + entry("gpu_ids = [2]"),
            ['tasks.toml:3: task "a": gpus = 1, but none of its gpu_ids is in the deck'],
        ),
        (
            '[deck]\ngpus = "0-1"\n' + entry("gpus = 2\ngpu_ids = [1, 2]"),
            ['tasks.toml:3: task "a": gpus = 2, but only 1 of its gpu_ids are in the deck'],
        ),
        ('[deck]\ngpus = "none"\n' + entry("gpus = 8\ngpu_ids = [0,1,2,3,4,5,6,7]"), []),
        ('[deck]\ngpus = "sim:2"\n' + entry("gpus = 3"), ['tasks.toml:3: task "a": gpus = 3, but the deck has only 2']),
    ],
)  # fmt: skip
def test_what_can_never_run_here_is_refused(text: str, expected: list[str]):
    assert lines(text) == expected


def test_a_task_fits_where_one_node_of_the_job_has_all_its_gpus():
    nodes = [replace(gpu, node="n2" if gpu.index == 3 else "") for gpu in BOX.gpus]
    job = replace(BOX, gpus=tuple(nodes))
    assert lines(entry("gpus = 3"), job) == []
    words = "gpus = 4, and a task's GPUs are all on one node: none of the job has more than 3 of them"
    assert lines(entry("gpus = 4"), job) == [f'tasks.toml:1: task "a": {words}']


def test_many_tasks_of_an_entry_that_do_not_fit_are_one_line():
    text = '[[task]]\nname = "a{i}"\ncommand = "x {i}"\nmatrix.i = [1, 2, 3]\ngpus = 8\n'
    assert lines(text) == ['tasks.toml:1: task "a1" (and 2 more): gpus = 8, but the deck has only 4']


def test_without_any_gpu_all_means_cpu():
    assert lines(entry("gpus = 4"), NOTHING) == []


def test_without_any_gpu_a_list_is_an_error():
    assert lines('[deck]\ngpus = "0"\n' + entry(""), NOTHING) == [
        "tasks.toml:2: [deck]: gpus names GPU 0, but this box has none"
    ]


def test_an_option_is_named_where_it_gave_the_ids():
    assert lines(entry(""), BOX, RunOptions(gpus="0,8")) == ["--gpus: gpus names GPU 8, but this box has only 0 to 3"]


def test_tasks_that_are_left_out_need_not_fit():
    text = entry("gpus = 8") + '[[task]]\nname = "b"\ncommand = "x"\n'
    assert lines(text, BOX, RunOptions(only=("b",))) == []


def test_required_variables_must_be_set():
    made = deck(entry('env_required = ["HF_TOKEN", "PATH"]'))
    with pytest.raises(TaskFileError) as caught:
        check_environment(made, {"PATH": "/bin"})
    assert str(caught.value) == 'tasks.toml:1: task "a": env_required: HF_TOKEN is not set in the environment'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (entry('launch = "auto"\ngpus = 2'), []),
        (entry('watch.silent = "3m"'), []),
        ('[distributed]\nstrategy = "ddp"\n' + entry('launch = "torchrun"'), []),
        (entry("progress = 'step (\\d+)'\nmetrics.acc = { regex = 'acc=(.*)' }"), []),
    ],
)
def test_what_cannot_be_done_yet_loads_and_is_refused_at_the_start(text: str, expected: list[str]):
    made = deck(text)
    assert list(made.later) == expected
    if expected:
        with pytest.raises(TaskFileError) as caught:
            refuse_later(made)
        assert list(caught.value.problems) == expected
    else:
        refuse_later(made)


def test_progress_may_say_how_many_steps_there_are():
    made = deck("[vars]\nsteps = 5000\n" + entry("progress = { regex = 'iter (\\d+):', total = \"{steps}\" }"))
    assert made.tasks[0].extras.progress == Progress(r"iter (\d+):", 5000)


def test_the_users_own_checks_know_vars_and_keep_what_is_known_when_they_run():
    made = deck(
        '[doctor]\nrun = ["{python} -c \'import x\' {where}"]\nimports = ["a.b"]\n'
        '[vars]\nwhere = "my data"\n' + entry("")
    )
    assert made.own_checks == OwnChecks(("\0{python} -c 'import x' 'my data'",), ("a.b",))
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ('run = ["{nope}"]', "tasks.toml:2: [doctor]: run has {nope}, which is unknown: "),
        ('imports = ["flash-attn"]', 'tasks.toml:2: [doctor]: imports must be names of modules, as "flash_attn", got '),
        ("run = 3", "tasks.toml:2: [doctor]: run must be a list such as "),
    ],
)
def test_mistakes_in_the_users_own_checks_are_told_with_their_line(table: str, problem: str):
    with pytest.raises(TaskFileError) as caught:
        deck(f"[doctor]\n{table}\n" + entry(""))
    assert [line[: len(problem)] for line in caught.value.problems] == [problem]
