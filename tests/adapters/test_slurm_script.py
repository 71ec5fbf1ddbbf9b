"""What Slurm is asked for, and how that stands in a script."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.job_rig import TOKEN, order_in
from tests.inside.adapters import (
    SBATCH,
    array_script,
    asks,
    ignored_nodelist,
    job_name,
    quoted,
    script,
    small_environment,
    unasked,
)

FOLDER = Path("/logs/train")


def lines_of(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def header(**more: Any) -> list[str]:
    return lines_of(script(order_in(FOLDER, "true", **more), "/logs/.jobs"))


def test_a_job_says_whose_it_is_where_it_writes_and_that_it_never_runs_twice() -> None:
    assert header() == [
        f"--job-name=train-{TOKEN[:8]}",
        f'--comment="gpudeck {TOKEN}"',
        "--no-requeue",
        "--open-mode=append",
        "--output=/logs/train/attempt-1.log",
        "--error=/logs/train/attempt-1.err",
        "--chdir=/logs/train",
        "--nodes=1",
        "--ntasks-per-node=1",
        "--signal=B:USR2@60",
    ]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({"gpus": 4}, "--gres=gpu:4"),
        ({"gpus": 4, "options": {"gres": "gpu:a100:4"}}, "--gres=gpu:a100:4"),
        ({"cpus": 8}, "--cpus-per-task=8"),
        ({"cpus": 8, "tasks_per_node": 4}, "--cpus-per-task=2"),
        ({"cpus": 2, "tasks_per_node": 4}, "--cpus-per-task=1"),
        ({"tasks_per_node": 4}, "--ntasks-per-node=4"),
        ({"nodes": 3}, "--nodes=3"),
        ({"memory_mib": 2048}, "--mem=2048M"),
        ({"limit_s": 61.0}, "--time=2"),
        ({"limit_s": 1.0}, "--time=1"),
        ({"options": {"partition": "gpu"}}, "--partition=gpu"),
        ({"options": {"constraint": "a100|h100"}}, '--constraint="a100|h100"'),
        ({"options": {"exclude": "n1"}, "exclude": ("n2", "n3")}, "--exclude=n1,n2,n3"),
        ({"exclusive": True}, "--exclusive"),
        ({"options": {"nodelist": "n1"}}, "--nodelist=n1"),
        ({"nodes": 2, "options": {"nodelist": "n[1-2]"}}, '--nodelist="n[1-2]"'),
        ({"grace_s": 90.0}, "--signal=B:USR2@120"),
        ({"grace_s": 200_000.0}, "--signal=B:USR2@65535"),
        ({"warn_signal": "USR1"}, "--signal=B:USR2@360"),
        ({"options": {"extra": ["--mail-type=END"]}}, "--mail-type=END"),
        ({"options": {"extra": ["#SBATCH --reservation=x"]}}, "--reservation=x"),
        ({"stdout": "/a/100%/x y.log"}, '--output="/a/100%%/x y.log"'),
        ({"stdout": '/a/"q"#.log'}, '--output="/a/\\"q\\"#.log"'),
        ({"stdout": "/a\\b.log"}, "--output=/dev/null"),
        ({"stdout": "/a\nb.log"}, "--output=/dev/null"),
    ],
)
def test_what_a_task_says_is_asked_for(said: dict[str, object], asked: str) -> None:
    assert asked in header(**said)


def test_a_job_is_named_after_its_task_and_its_token() -> None:
    assert f"--job-name=sweep-lr-0-1-{TOKEN[:8]}" in header(task="sweep/lr=0,1 é")


@pytest.mark.parametrize(
    ("said", "option"),
    [
        ({}, "--gres"),
        ({}, "--time"),
        ({}, "--mem"),
        ({}, "--cpus-per-task"),
        ({"options": {"nodelist": "n1,n2"}}, "--nodelist"),
        ({"stdout": "/a/both", "stderr": "/a/both"}, "--error"),
        ({"cwd": "/a\nb"}, "--chdir"),
    ],
)
def test_what_it_does_not_say_is_left_to_slurm(said: dict[str, object], option: str) -> None:
    assert not [line for line in header(**said) if line.startswith(option)]


def test_the_users_own_lines_come_last_and_so_win() -> None:
    assert header(options={"extra": ["--nodes=9"]})[-1] == "--nodes=9"


def test_a_nodelist_of_several_nodes_is_for_a_task_of_several() -> None:
    order = order_in(FOLDER, options={"nodelist": "n[1-2]"})
    assert order.job is not None
    assert ignored_nodelist(order.job)


def test_names_are_unique_by_their_token_however_long_the_task_is() -> None:
    name = job_name("x" * 200, TOKEN)
    assert (len(name), name.endswith(TOKEN[:8])) == (69, True)


def test_no_line_of_a_script_ends_as_dos_does() -> None:
    assert "\r" not in script(order_in(FOLDER, "echo", "a\r\nb", env={"A": "\r"}), "/logs/.jobs")


@pytest.mark.parametrize(("text", "word"), [("a-b/c=1", "a-b/c=1"), ("", "''"), ("it's", "'it'\\''s'"), ("*", "'*'")])
def test_words_are_quoted_where_they_need_it(text: str, word: str) -> None:
    assert quoted(text) == word


def test_tasks_that_ask_for_the_same_share_an_array() -> None:
    orders = [order_in(FOLDER, task=name, script=f"/logs/{name}.sh") for name in ("a", "b c")]
    text = array_script(orders, "feed" * 6, at_once=1)
    assert [line for line in text.splitlines() if "array" in line or "job-name" in line] == [
        "#SBATCH --job-name=tasks-feedfeed",
        f'#SBATCH --comment="gpudeck-array {"feed" * 6}"',
        "#SBATCH --array=0-1%1",
    ]
    assert "--no-requeue" in lines_of(text)


def test_each_element_of_an_array_runs_its_own_script(tmp_path: Path) -> None:
    names = ["a", "b c", "d'e", "f\ng", "h\\n", "$(i)", "ü\r"]
    orders = [order_in(tmp_path, task="t", script=f"{tmp_path}/{name}.sh") for name in names]
    (tmp_path / "array.sh").write_text(array_script(orders, "feed" * 6), newline="")
    for index, name in enumerate(names):
        (tmp_path / f"{name}.sh").write_text(f"echo {index}; exit 3")
        done = subprocess.run(
            ["/bin/bash", "-p", "array.sh"], cwd=tmp_path, env={"SLURM_ARRAY_TASK_ID": str(index)},
            capture_output=True, check=False, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (3, f"{index}\n", "")


def test_an_element_without_a_script_fails(tmp_path: Path) -> None:
    orders = [order_in(tmp_path, task="t", script=f"{tmp_path}/{name}.sh") for name in ("a", "b")]
    (tmp_path / "array.sh").write_text(array_script(orders, "feed" * 6))
    done = subprocess.run(["/bin/bash", "-p", "array.sh"], cwd=tmp_path, env={"SLURM_ARRAY_TASK_ID": "1"}, check=False)
    assert done.returncode == 125


@pytest.mark.parametrize("more", [{"gpus": 2}, {"options": {"extra": ["--hint=nomultithread"]}}, {"exclude": ("n1",)}])
def test_jobs_that_ask_for_other_things_do_not_share_one(more: dict[str, Any]) -> None:
    plain, other = order_in(FOLDER).job, order_in(FOLDER, **more).job
    assert plain is not None
    assert other is not None
    assert asks(plain) != asks(other)


def test_sbatch_gets_all_of_the_small_environment_and_nothing_else() -> None:
    assert SBATCH[:3] == ("sbatch", "--parsable", "--export=ALL")
    full = {"PATH": "/bin", "HOME": "/h", "SLURM_CONF": "/c", "SLURM_JOB_ID": "1", "SBATCH_REQUEUE": "1", "KEY": "x"}
    kept = {"PATH": "/bin", "HOME": "/h", "SLURM_CONF": "/c"}
    users = {"SBATCH_ACCOUNT": "proj", "SLURM_CLUSTERS": "big", "KRB5CCNAME": "FILE:/t"}
    assert small_environment({**full, **users}) == {**kept, **users}


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, {"SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION"}),
        ({"account": "vision"}, {"SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION"}),
        ({"extra": ["-p short", "--reservation=course"], "qos": "high"}, {"SBATCH_ACCOUNT"}),
        ({"extra": ["#SBATCH -Aproj"]}, {"SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION"}),
    ],
)
def test_what_the_task_file_says_goes_before_what_the_shell_sets_for_sbatch(
    options: dict[str, Any], left: set[str]
) -> None:
    job = order_in(FOLDER, options=options).job
    assert job is not None
    shell = dict.fromkeys(["SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION"], "x")
    assert set(unasked(shell, job)) == left


@pytest.mark.parametrize(
    ("names", "name"), [(["train-0.1", "train-0.25"], "train-"), (["t1", "t10"], "t-"), (["dump", "train"], "tasks-")]
)
def test_an_array_is_named_after_what_its_tasks_are_called_alike(names: list[str], name: str) -> None:
    orders = [order_in(FOLDER, task=task) for task in names]
    assert f"--job-name={name}feedfeed" in lines_of(array_script(orders, "feed" * 6))


def test_the_users_own_lines_come_last_in_an_array_too() -> None:
    orders = [order_in(FOLDER, options={"extra": ["--requeue"]}) for _ in range(2)]
    assert lines_of(array_script(orders, "feed" * 6))[-1] == "--requeue"
