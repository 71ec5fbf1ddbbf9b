"""What every script and every array asks for, at its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.job_rig import order_in
from tests.inside.adapters import SBATCH, array_script, asks, script, small_environment, unasked

FOLDER = Path("/work")


def header(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]


def asked(**more: Any) -> list[str]:
    return header(script(order_in(FOLDER, **more), "/logs/.jobs"))


def test_a_warning_comes_no_earlier_than_slurm_can() -> None:
    assert "--signal=B:USR2@65535" in asked(grace_s=200_000.0)


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


def test_no_element_of_an_array_is_put_back_into_the_queue() -> None:
    assert "--no-requeue" in header(array_script([order_in(FOLDER), order_in(FOLDER)], "feed" * 6))


@pytest.mark.parametrize(
    ("names", "name"), [(["train-0.1", "train-0.25"], "train-"), (["t1", "t10"], "t-"), (["dump", "train"], "tasks-")]
)
def test_an_array_is_named_after_what_its_tasks_are_called_alike(names: list[str], name: str) -> None:
    orders = [order_in(FOLDER, task=task) for task in names]
    assert f"--job-name={name}feedfeed" in header(array_script(orders, "feed" * 6))


def test_the_users_own_lines_come_last_in_an_array_too() -> None:
    orders = [order_in(FOLDER, options={"extra": ["--requeue"]}) for _ in range(2)]
    assert header(array_script(orders, "feed" * 6))[-1] == "--requeue"


@pytest.mark.parametrize("more", [{"options": {"extra": ["--hint=nomultithread"]}}, {"exclude": ("n1",)}])
def test_jobs_with_other_lines_or_nodes_to_avoid_share_no_array(more: dict[str, Any]) -> None:
    plain, other = order_in(FOLDER).job, order_in(FOLDER, **more).job
    assert plain is not None
    assert other is not None
    assert asks(plain) != asks(other)


def test_nodes_that_the_user_and_that_we_avoid_are_one_list() -> None:
    assert "--exclude=n1,n2" in asked(options={"exclude": "n1"}, exclude=("n2",))
