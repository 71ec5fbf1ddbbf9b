"""Which process of how many: from torchrun's variables, Slurm's, or none; contradictions are errors."""

from __future__ import annotations

import pytest

from gpudeck.distributed.errors import DistributedError
from gpudeck.distributed.place import Place, meeting_point, place_of

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
STEP = {
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}
BATCH = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
BY_HAND = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, Place()),
        (TORCHRUN, Place(3, 4, 1, 2, "torchrun")),
        (STEP, Place(2, 4, 0, 2, "slurm")),
        (STEP | TORCHRUN, Place(3, 4, 1, 2, "torchrun")),
        (STEP | {"WORLD_SIZE": "4"}, Place(2, 4, 0, 2, "slurm")),
        (STEP | {"RANK": "2", "WORLD_SIZE": "4"}, Place(2, 4, 0, 2, "environment")),
        (BATCH, Place()),
        (BATCH | {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}, Place()),
        (BATCH | {"SLURM_STEP_ID": "0"}, Place(0, 4, 0, 4, "slurm")),
        (BY_HAND, Place(1, 2, 1, 2, "environment")),
        ({"WORLD_SIZE": "1"}, Place()),
    ],
    ids=[
        "nothing set", "torchrun", "srun", "torchrun in a step", "srun and WORLD_SIZE", "srun and equal RANK",
        "a batch script", "a step of one task", "a step of older Slurm", "by hand", "WORLD_SIZE=1",
    ],
)  # fmt: skip
def test_the_environment_tells_the_place(environ: dict[str, str], place: Place) -> None:
    assert place_of(environ) == place


@pytest.mark.parametrize("argv", [["x.py", "--local-rank=1"], ["x.py", "--lr", "1", "--local_rank", "1", "more"]])
def test_older_launchers_pass_the_local_rank_as_an_argument(argv: list[str]) -> None:
    environ = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "elsewhere"}
    assert place_of(environ, argv).local_rank == 1


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RANK": "1"}, "WORLD_SIZE is not"),
        ({"WORLD_SIZE": "2"}, "RANK is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "from 0 to 1"),
        ({"RANK": "first", "WORLD_SIZE": "2"}, "RANK='first' is not a number"),
        ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "elsewhere"}, "LOCAL_RANK is not"),
        (STEP | {"RANK": "0", "WORLD_SIZE": "4"}, "unset RANK"),
        (STEP | {"WORLD_SIZE": "8"}, "unset WORLD_SIZE"),
        ({"SLURM_STEP_ID": "0", "SLURM_NTASKS": "4"}, "without SLURM_PROCID"),
    ],
)
def test_what_contradicts_itself_is_an_error_that_names_the_variable(environ: dict[str, str], words: str) -> None:
    with pytest.raises(DistributedError, match=words):
        place_of(environ)


@pytest.mark.parametrize(
    ("environ", "point"),
    [
        ({"MASTER_ADDR": "host", "MASTER_PORT": "29500"}, ("host", 29500)),
        ({"SLURM_STEP_NODELIST": "login1,node[01-04]", "SLURM_JOB_ID": "123456"}, ("login1", 18456)),
        ({"SLURM_JOB_NODELIST": "node[03-04]", "SLURM_JOB_ID": "5", "MASTER_PORT": "3000"}, ("node03", 3000)),
        ({"SLURM_STEP_NODELIST": "node07", "SLURM_JOB_ID": "10000"}, ("127.0.0.1", 15000)),
        ({"SLURM_STEP_NODELIST": "b[1-2]", "MASTER_ADDR": "a", "SLURM_JOBID": "1"}, ("a", 15001)),
    ],
)
def test_they_meet_where_the_environment_says_else_at_slurms_first_host(
    environ: dict[str, str], point: tuple[str, int]
) -> None:
    assert meeting_point(environ) == point


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "MASTER_ADDR is not set"),
        ({"MASTER_ADDR": "host"}, "MASTER_PORT is not set"),
        ({"MASTER_ADDR": "host", "MASTER_PORT": "70000"}, "1 to 65535"),
        ({"SLURM_STEP_NODELIST": "node[1-", "SLURM_JOB_ID": "1"}, "not a list of hosts"),
    ],
)
def test_without_a_place_to_meet_there_is_an_error(environ: dict[str, str], words: str) -> None:
    with pytest.raises(DistributedError, match=words):
        meeting_point(environ)
