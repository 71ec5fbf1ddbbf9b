"""Jobs that Slurm ends for want of memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside.slurm import says_killed, says_memory
from tests.slurm.launcher_rig import Rig, run
from tests.slurm.rig import Cluster, running_cluster

_WATCHED = """\
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectTypeParameters=CR_Core_Memory"""
_GREEDY = "python3 -c 'import time; held = bytearray(200_000_000); time.sleep(1000)'"


@pytest.fixture(scope="module")
def watched() -> Iterator[Cluster]:
    """A cluster that kills jobs with more memory than they asked for."""
    with running_cluster(NODES=1, GPUS=1, KILL_WAIT=2, EXTRA=_WATCHED) as cluster:
        yield cluster


@pytest.mark.slurm
@pytest.mark.parametrize("ranks", [0, 1], ids=["in the batch step", "in a step of srun"])
def test_a_job_that_is_killed_for_its_memory_is_told_as_out_of_memory(watched: Cluster, tmp_path: Path, ranks: int):
    async def body(rig: Rig) -> None:
        token = rig.start(_GREEDY, memory_mib=60, tasks_per_node=ranks)
        end = await rig.end(token, patience_s=60)
        assert (end.cause, end.detail) == ("oom", "host: more than the job asked for on node1")

    run(watched, tmp_path, body)


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd-node1: error: StepId=1.batch exceeded memory limit (318078976 > 104857600), being killed",
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 3.batch cgroup. Some of your processes may have been "
        "killed by the cgroup out-of-memory handler.",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been OOM Killed.",
        "srun: error: node1: task 0: Out Of Memory",
    ],
)
def test_slurms_lines_about_memory_are_known(line: str, tmp_path: Path):
    log = tmp_path / "log"
    log.write_text(f"step 1\n{line}\n")
    assert says_memory("/no/such/log", str(log))


def test_a_tasks_own_words_about_memory_are_not_slurms(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("RuntimeError: out of memory, memory limit, oom-kill\n")
    assert not says_memory(str(log))


@pytest.mark.parametrize(
    ("line", "killed"),
    [
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.", True),
        ("  traceback : Signal 9 (SIGKILL) received by PID 1234", True),
        ("srun: error: node1: task 0: Killed", True),
        ("ValueError: bad rate", False),
        ("many skilled workers", False),
    ],
)
def test_a_log_tells_whether_something_was_killed(line: str, killed: bool, tmp_path: Path):
    log = tmp_path / "log"
    log.write_text(f"{line}\n")
    assert says_killed(str(log)) == killed
