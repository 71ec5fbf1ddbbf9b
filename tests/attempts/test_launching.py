"""What starts the processes of a task, and what each of them is told."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gpudeck.engine.core.spec import Extras, Policy, Resources, TaskSpec, Work
from tests.inside.attempts import AttemptPaths, LogNames, launch_env, launched, ranks_of, threads_each

PATHS = LogNames("/logs").paths("t", 3, merge_stderr=False)


def spec(launch: Any, *, nproc: int | None = None, gpus: Any = 1, cpus: int | None = None, **policy: Any) -> TaskSpec:
    return TaskSpec(
        "t",
        "t",
        0,
        Work(("train",)),
        "f",
        Resources(gpus=gpus, cpus=cpus),
        Policy(**policy),
        extras=Extras(launch=launch, nproc=nproc),
    )


@pytest.mark.parametrize(
    ("launch", "nproc", "wanted", "given", "cores", "expected"),
    [
        ("command", None, 4, 4, 8, None),
        ("torchrun", None, 4, 4, 8, ("torchrun", 4)),
        ("torchrun", 2, 4, 4, 8, ("torchrun", 2)),
        ("torchrun", None, "all", 3, 8, ("torchrun", 3)),
        ("torchrun", None, 4, 0, 2, ("torchrun", 2)),
        ("torchrun", None, 4, 0, 8, ("torchrun", 4)),
        ("torchrun", None, "all", 0, 8, ("torchrun", 1)),
        ("torchrun", None, 0, 0, 8, ("torchrun", 1)),
        ("accelerate", 2, 0, 0, 8, ("accelerate", 2)),
        ("auto", None, 1, 1, 8, None),
        ("auto", None, 2, 2, 8, ("torchrun", 2)),
        ("auto", None, 2, 0, 1, None),
        ("auto", 2, 0, 0, 8, ("torchrun", 2)),
    ],
)
def test_how_many_processes_start_and_by_what(
    launch: str, nproc: int | None, wanted: Any, given: int, cores: int, expected: tuple[str, int] | None
) -> None:
    found = ranks_of(spec(launch, nproc=nproc, gpus=wanted), given, cores)
    assert (found and (found.launcher, found.count)) == expected


def composed(task: TaskSpec, given: int = 2, *, merged: bool = False) -> tuple[str, ...]:
    ranks = ranks_of(task, given, 8)
    assert ranks is not None
    return launched(ranks, ("python", "t.py"), "/env/bin/python", PATHS, merged=merged)


def test_torchrun_finds_its_meeting_place_itself() -> None:
    words = composed(spec("torchrun", gpus=2))
    assert words[:8] == (
        "/env/bin/python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python",
        "/bin/bash",
    )  # fmt: skip
    assert words[-4:] == ("gpudeck", "/logs/t/attempt-3", "python", "t.py")


def test_accelerate_is_told_that_it_starts_several_where_no_gpus_tell_it() -> None:
    with_gpus, without = composed(spec("accelerate", gpus=2)), composed(spec("accelerate", nproc=2, gpus=0), 0)
    assert with_gpus[1:3] == ("-m", "accelerate.commands.launch")
    assert ("--multi_gpu" in with_gpus, "--multi_gpu" in without) == (False, True)
    assert with_gpus[with_gpus.index("--num_processes") + 1] == "2"


def told(task: TaskSpec) -> dict[str, str]:
    ranks = ranks_of(task, 2, 8)
    assert ranks is not None
    return launch_env(ranks, task, PATHS)


def test_the_launcher_ends_its_ranks_before_it_is_killed_itself() -> None:
    assert told(spec("torchrun", grace_s=30.0))["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "24"
    assert told(spec("torchrun", grace_s=0.5))["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "1"


def test_a_signal_that_only_warns_does_not_end_the_launcher() -> None:
    assert "SIGUSR1" in told(spec("torchrun"))["PET_SIGNALS_TO_HANDLE"]
    warned = told(spec("torchrun", warn_signal="USR1", stop_signal="USR2"))["PET_SIGNALS_TO_HANDLE"]
    assert warned == "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR2"


def test_the_first_error_is_kept_beside_the_logs() -> None:
    assert told(spec("accelerate"))["TORCHELASTIC_ERROR_FILE"] == "/logs/t/attempt-3.error.json"


@pytest.mark.parametrize(
    ("task", "given", "cpus", "expected"),
    [
        (spec("torchrun", gpus=4), 4, 8, 8),
        (spec("torchrun", gpus=4, cpus=16), 4, 16, 4),
        (spec("torchrun", gpus=4), 0, 8, 2),
        (spec("torchrun", gpus=2, nproc=4), 2, 8, 4),
        (spec("torchrun", gpus=0, nproc=4), 0, 1, 1),
    ],
)
def test_ranks_share_the_cores_of_their_task(task: TaskSpec, given: int, cpus: int, expected: int) -> None:
    ranks = ranks_of(task, given, 8)
    assert ranks is not None
    assert threads_each(ranks, task, given, cpus) == expected


def on_two_nodes(launch: str, *, gpus: int = 2) -> tuple[str, ...]:
    task = replace(spec(launch, gpus=gpus), extras=Extras(launch=cast("Any", launch), nodes=2))
    ranks = ranks_of(task, gpus, 8, cluster=True)
    assert ranks is not None
    assert (ranks.count, ranks.total) == (gpus, 2 * gpus)
    return launched(ranks, ("train",), "/env/bin/python", PATHS, merged=False)


def test_on_several_nodes_torchrun_meets_at_the_first_of_the_job() -> None:
    shell, _, text, _, *rest = on_two_nodes("torchrun")
    assert shell == "/bin/bash"
    assert text.startswith('exec "$1" -m torch.distributed.run --node-rank "$SLURM_NODEID" --master-addr ')
    assert rest[:6] == ["/env/bin/python", "--nnodes", "2", "--nproc-per-node", "2", "--no-python"]


def test_on_several_nodes_accelerate_is_told_the_number_of_all_ranks() -> None:
    _, _, text, _, *rest = on_two_nodes("accelerate", gpus=1)
    assert '--machine_rank "$SLURM_NODEID" --main_process_ip ' in text
    assert rest[1:7] == ["--num_machines", "2", "--num_processes", "2", "--multi_gpu", "--no_python"]


def test_accelerate_finds_its_meeting_place_itself_on_one_node_alone() -> None:
    one = spec("accelerate")
    two = replace(one, extras=Extras(launch="accelerate", nodes=2))
    assert ("PET_STANDALONE" in told(one), "PET_STANDALONE" in told(two)) == (True, False)


def test_ranks_that_srun_starts_know_themselves_by_its_numbers() -> None:
    words = on_two_nodes("srun")
    assert "$SLURM_PROCID" in words[2]
    assert words[3:] == ("gpudeck", "/logs/t/attempt-3", "train")


def test_a_step_of_the_job_that_gpudeck_is_in_keeps_the_gpus_it_was_given() -> None:
    ranks = ranks_of(spec("srun", gpus=2), 2, 8)
    assert ranks is not None
    words = launched(ranks, ("train",), "python", PATHS, merged=False)
    assert "exec srun " in words[2]
    assert 'CUDA_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES"' in words[2]
    assert words[4] == "2"


@pytest.fixture
def paths(tmp_path: Path) -> AttemptPaths:
    return LogNames(str(tmp_path)).paths("t", 1, merge_stderr=False)


def ran_as(rank: str | None, paths: AttemptPaths, command: list[str], *, merged: bool = False) -> tuple[int, str, str]:
    """What a rank does below a launcher: its code, and what it wrote where the launcher does."""
    ranks = ranks_of(spec("torchrun"), 1, 8)
    assert ranks is not None
    words = launched(ranks, command, "python", paths, merged=merged)
    below = words[words.index("--no-python") + 1 :]
    env = {**os.environ, "BASH_FUNC_module%%": "() { echo module; }", **({} if rank is None else {"RANK": rank})}
    os.makedirs(paths.dir, exist_ok=True)
    done = subprocess.run(below, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_rank_0_writes_where_the_launcher_does_and_others_to_logs_of_their_own(paths: AttemptPaths) -> None:
    command = ["bash", "-c", 'echo out $RANK "$0"; echo err >&2; exit 7', "a b"]
    assert ran_as("0", paths, command) == (7, "out 0 a b\n", "err\n")
    assert ran_as(None, paths, command) == (7, "out a b\n", "err\n")
    assert ran_as("1", paths, command) == (7, "", "")
    assert ran_as("1", paths, command) == (7, "", "")
    other = paths.of_rank(1)
    assert (Path(other.out).read_text(), Path(other.err).read_text()) == ("out 1 a b\n" * 2, "err\n" * 2)


def test_merged_streams_are_one_log_for_each_rank(paths: AttemptPaths) -> None:
    ran_as("2", paths, ["bash", "-c", "echo out; echo err >&2"], merged=True)
    assert Path(paths.of_rank(2).out).read_text() == "out\nerr\n"
    assert not os.path.exists(paths.of_rank(2).err)


def test_functions_that_the_environment_exports_reach_the_ranks(paths: AttemptPaths) -> None:
    assert ran_as("0", paths, ["bash", "-c", "module"]) == (0, "module\n", "")


def test_a_command_that_is_not_there_is_told_by_its_rank(paths: AttemptPaths) -> None:
    code, _, err = ran_as("0", paths, ["no-such-program"])
    assert (code, "gpudeck: " in err, "no-such-program: not found" in err) == (127, True, True)
