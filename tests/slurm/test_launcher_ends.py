"""How jobs begin and end, as the engine is told."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from gpudeck.engine.core.inputs import Pending, Submitted
from tests.slurm.launcher_rig import Rig, on_cluster, until

pytestmark = pytest.mark.slurm


@on_cluster
async def test_a_success_is_told_with_its_job_its_nodes_and_its_code(rig: Rig):
    token = rig.start("echo hello from $SLURM_JOB_ID")
    assert (await rig.end(token)).code == 0
    job = (await rig.told(Submitted, token)).job
    spawned = await rig.runs(token)
    assert (spawned.job, spawned.nodes) == (job, ("node1",))
    assert rig.log(token) == f"hello from {job}\n"


@on_cluster
async def test_an_exit_code_is_told_as_it_was(rig: Rig):
    token = rig.start("exit 7")
    end = await rig.end(token)
    assert (end.code, end.cause, end.spawn_error) == (7, "", "")


@on_cluster
async def test_a_signal_that_kills_the_command_is_told_as_its_code(rig: Rig):
    token = rig.start("kill -SEGV $$")
    assert (await rig.end(token)).code == 128 + signal.SIGSEGV


@on_cluster
async def test_a_command_that_does_not_exist_is_a_spawn_error(rig: Rig):
    order = rig.order("")
    rig.launcher.start(type(order)(order.token, ("no-such-thing",), order.env, order.cwd, order.stdout, order.stderr,
                                   job=order.job))  # fmt: skip
    end = await rig.end(order.token)
    assert (end.code, end.spawn_error) == (127, "no such command: no-such-thing")


@on_cluster
async def test_a_folder_that_does_not_exist_is_a_spawn_error_that_names_it(rig: Rig):
    order = rig.order("true")
    rig.launcher.start(type(order)(order.token, order.argv, order.env, "/no/such/folder", order.stdout, order.stderr,
                                   job=order.job))  # fmt: skip
    end = await rig.end(order.token)
    assert "/no/such/folder" in end.spawn_error


@on_cluster
async def test_what_slurm_can_never_run_is_refused_in_its_words(rig: Rig):
    token = rig.start("true", options={"partition": "nowhere"})
    end = await rig.end(token)
    assert "partition" in end.spawn_error.lower()
    assert rig.jobs_named(token) == []


def told_why(rig: Rig, token: str) -> set[str]:
    return {each.why for each in rig.inputs if isinstance(each, Pending) and each.token == token}


@on_cluster
async def test_a_job_that_waits_says_why_and_runs_when_there_is_room(rig: Rig):
    holders = [rig.start("sleep 1000", gpus=4) for _ in range(2)]
    for holder in holders:
        await rig.runs(holder)
    token = rig.start("true", gpus=4)
    await until(lambda: {"Resources", "Priority"} & told_why(rig, token))  # Slurm may have no reason yet at first
    rig.stop(holders[0], number=signal.SIGKILL, grace_s=0)
    assert (await rig.end(token)).code == 0


@on_cluster
async def test_scancel_by_somebody_else_is_told_as_cancelled(rig: Rig):
    token = rig.start("sleep 1000")
    job = (await rig.runs(token)).job
    rig.cluster.call("scancel", job)
    end = await rig.end(token)
    assert (end.cause, end.detail) == ("cancelled", "by scancel")


@on_cluster
async def test_a_command_that_exits_with_0_when_somebody_cancels_it_is_told_as_cancelled(rig: Rig):
    token = rig.start("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done")
    job = (await rig.runs(token)).job
    await until(lambda: rig.log(token))
    rig.cluster.call("scancel", job)
    end = await rig.end(token)
    assert (end.code, end.cause) == (0, "cancelled")


@on_cluster
async def test_a_failure_that_tells_of_a_killed_process_keeps_its_code_where_slurm_knows_no_better(rig: Rig):
    token = rig.start("echo 'DataLoader worker (pid 1) is killed by signal: Killed.'; exit 1")
    end = await rig.end(token)
    assert (end.code, end.cause) == (1, "")


@on_cluster
async def test_scancel_of_a_job_that_waits_is_told_as_cancelled(rig: Rig):
    token = rig.start("true", options={"extra": ["--hold"]})
    job = (await rig.told(Submitted, token)).job
    await rig.told(Pending, token)
    rig.cluster.call("scancel", job)
    assert (await rig.end(token)).cause == "cancelled"


@on_cluster
async def test_a_wrapper_that_is_killed_is_an_end_without_a_code(rig: Rig):
    pids = rig.folder / "pids"
    token = rig.start(f"echo $PPID > {pids}.new; mv {pids}.new {pids}; sleep 1000")
    await until(pids.exists)
    os.kill(int(pids.read_text()), signal.SIGKILL)
    end = await rig.end(token)
    assert (end.code, end.cause) == (None, "")
    assert "no exit code was written" in end.detail


@on_cluster
async def test_the_elements_of_an_array_are_told_each_by_its_own_end(rig: Rig):
    options = {"array": True}
    tokens = [rig.start(f"exit {code}", options=options) for code in (0, 3, 0, 5)]
    assert [(await rig.end(token)).code for token in tokens] == [0, 3, 0, 5]
    jobs = [(await rig.told(Submitted, token)).job for token in tokens]
    head = jobs[0].partition("_")[0]
    assert jobs == [f"{head}_{index}" for index in range(4)]


@on_cluster
async def test_what_is_forgotten_leaves_only_its_script_and_its_logs(rig: Rig):
    token = rig.start("true")
    await rig.end(token)
    rig.launcher.forget(token)
    await until(lambda: not list(rig.control.glob(f"{token}*")))
    assert sorted(path.name for path in (rig.folder / "logs" / token).iterdir()) == [
        "attempt-1.err", "attempt-1.log", "attempt-1.sh",
    ]  # fmt: skip


@on_cluster
async def test_an_environment_that_would_change_what_slurm_does_changes_nothing(rig: Rig):
    hostile = {
        "SBATCH_CONSTRAINT": "nowhere", "SBATCH_GRES": "gpu:99", "SBATCH_EXPORT": "NONE", "SLURM_JOB_ID": "1",
        "SQUEUE_FORMAT": "%A", "SQUEUE_STATES": "PENDING", "SACCT_FORMAT": "jobid",
        "SCANCEL_STATE": "PENDING", "SBATCH_HOLD": "1", "SBATCH_REQUEUE": "1", "SLURM_TIME_FORMAT": "relative",
    }  # fmt: skip
    rig.environ.update(hostile)
    rig.again()
    token = rig.start('echo "$SBATCH_GRES$SBATCH_CONSTRAINT"')
    assert (await rig.end(token)).code == 0
    assert rig.log(token) == "\n"
    stopped = rig.start("sleep 1000")
    await rig.runs(stopped)
    rig.stop(stopped, grace_s=1)
    assert (await rig.end(stopped)).code == 128 + signal.SIGTERM


@on_cluster
async def test_a_job_runs_on_and_tells_its_end_though_somebody_removes_the_logs(rig: Rig):
    go = rig.folder / "go"
    token = rig.start(f"until [ -e {go} ]; do sleep 0.1; done; exit 4")
    job = (await rig.runs(token)).job
    shutil.rmtree(rig.control.parent)
    claim = rig.control / f"{token}.claim"
    await until(claim.exists)
    assert claim.read_text() == f"{job}\n"
    go.touch()
    assert (await rig.end(token)).code == 4
