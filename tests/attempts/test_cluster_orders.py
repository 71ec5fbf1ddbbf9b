"""What a cluster is asked for an attempt, and what the attempt is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.effects import Launch
from gpudeck.engine.ports import JobOrder, StartOrder
from tests.inside.attempts import Box, LogFolder, Planner, load

CALLER = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "5", "KEPT": "yes"}


def deck_of(folder: Path, body: str, slurm: str = "") -> Deck:
    path = folder / "tasks.toml"
    path.write_text(f'[deck]\nbackend = "slurm"\n[slurm]\n{slurm}\n[[task]]\nname = "t"\ncommand = ["x"]\n{body}\n')
    return build(load(str(path), environ=CALLER), gpus=(), cores=4)


def order(folder: Path, body: str = "", slurm: str = "") -> StartOrder:
    deck = deck_of(folder, body, slurm)
    logs = LogFolder(deck.settings.log_dir, ["t"])
    box = Box(CALLER, visible=lambda _: "never", index_of={}, cpus_each=3, cores=4)
    launch = Launch("t", 2, "token", (), 0, may_resume=False)
    task, planner = deck.by_name["t"], Planner(deck, logs, box)
    return planner.order(task, planner.plan(task, launch))


def job(folder: Path, body: str = "", slurm: str = "") -> JobOrder:
    found = order(folder, body, slurm).job
    assert found is not None
    return found


def test_a_job_says_what_the_task_needs_on_each_node(tmp_path: Path) -> None:
    found = job(tmp_path, 'gpus = 4\ncpus = 16\nmemory = "64GiB"\nnodes = 2\nexclusive = true', 'qos = "high"')
    assert (found.gpus, found.cpus, found.memory_mib, found.nodes, found.exclusive) == (4, 16, 65536, 2, True)
    assert (found.task, found.attempt, found.options) == ("t", 2, {"qos": "high"})
    assert found.script == f"{tmp_path}/logs/t/attempt-2.sh"


@pytest.mark.parametrize(
    ("body", "slurm", "expected"),
    [
        ("", "", None),
        ('timeout = "1h"\ngrace = "20s"', "", 3620.0),
        ('timeout = "1h"', 'time = "3h"', 10800.0),
        ("", 'time = "3h"', 10800.0),
    ],
)
def test_the_limit_is_what_slurm_says_else_the_timeout_and_its_grace(
    tmp_path: Path, body: str, slurm: str, expected: float | None
) -> None:
    assert job(tmp_path, body, slurm).limit_s == expected


def test_the_memory_that_slurm_says_goes_before_the_tasks_own(tmp_path: Path) -> None:
    assert job(tmp_path, 'memory = "1GiB"', 'mem = "2GiB"').memory_mib == 2048


def test_a_task_without_gpus_asks_for_none_though_slurm_says_some_for_all(tmp_path: Path) -> None:
    assert job(tmp_path, "gpus = 0", 'gres = "gpu:a100:{num_gpus}"').options == {}
    assert job(tmp_path, "gpus = 0", 'gres = "gpu:1,lustre:2"').options == {"gres": "lustre:2"}


def test_a_task_with_all_gpus_has_its_nodes_alone(tmp_path: Path) -> None:
    found = job(tmp_path, 'gpus = "all"', 'gres = "gpu:a100:8"')
    assert (found.gpus, found.exclusive) == (8, True)


def test_gpus_are_numbered_as_the_job_sees_them(tmp_path: Path) -> None:
    found = order(tmp_path, 'gpus = 2\nenv = { IDS = "{gpu_ids}", N = "{num_gpus}" }')
    assert (found.env["IDS"], found.env["N"]) == ("0,1", "2")


def test_what_the_cluster_gives_out_is_not_told_beforehand(tmp_path: Path) -> None:
    env = order(tmp_path).env
    assert env["KEPT"] == "yes"
    assert not env.keys() & {"CUDA_VISIBLE_DEVICES", "GPUDECK_GPU_MEM_MIB", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}
    assert env.keys() >= {"GPUDECK_TASK", "GPUDECK_ATTEMPT", "GPUDECK_DECK", "GPUDECK_TOKEN", "GPUDECK_LOG"}


def test_cores_that_the_task_asks_for_are_told(tmp_path: Path) -> None:
    assert order(tmp_path, "cpus = 6").env["OMP_NUM_THREADS"] == "6"
    ranks = 'launch = "srun"\nnproc = 3\ncpus = 6'
    assert order(tmp_path, ranks).env["OMP_NUM_THREADS"] == "2"


def test_the_variables_that_the_task_sets_are_named(tmp_path: Path) -> None:
    assert job(tmp_path, 'env = { TMPDIR = "/fast", A = false }').own_env == {"TMPDIR", "A"}


@pytest.mark.parametrize(
    ("body", "tasks_per_node"),
    [
        ("gpus = 4", 0),
        ('gpus = 4\nlaunch = "auto"', 4),
        ('gpus = 1\nlaunch = "auto"', 0),
        ('gpus = 1\nnodes = 2\nlaunch = "auto"', 1),
        ('gpus = 4\nlaunch = "srun"', 4),
        ('gpus = 4\nlaunch = "srun"\nnproc = 2', 2),
        ('gpus = 4\nlaunch = "torchrun"', 0),
        ('gpus = 4\nnodes = 2\nlaunch = "torchrun"', 1),
    ],
)
def test_srun_starts_as_many_processes_as_the_launcher_leaves_to_it(
    tmp_path: Path, body: str, tasks_per_node: int
) -> None:
    assert job(tmp_path, body).tasks_per_node == tasks_per_node


def test_nodes_that_failed_under_the_task_are_left_out(tmp_path: Path) -> None:
    deck = deck_of(tmp_path, "")
    task = deck.by_name["t"]
    task.avoid_nodes = frozenset({"n2", "n1"})
    box = Box(CALLER, visible=lambda _: "", index_of={}, cpus_each=1)
    planner = Planner(deck, LogFolder(deck.settings.log_dir, ["t"]), box)
    found = planner.order(task, planner.plan(task, Launch("t", 1, "token", (), 0, may_resume=False))).job
    assert found is not None
    assert found.exclude == ("n1", "n2")
