"""Clusters in trouble: nodes and controllers that go away, limits, jobs that are more urgent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import LeaderExited, Submitted
from tests.e2e.decks import lives
from tests.inside.slurm import Limits
from tests.slurm.launcher_rig import Rig, on_cluster, run, stand_in, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@on_cluster
async def test_slurms_time_limit_is_told_as_a_timeout_and_the_command_is_told_before(rig: Rig):
    token = rig.start("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done", limit_s=60, grace_s=2.0)
    end = await rig.end(token, patience_s=100)
    assert (end.code, end.cause, end.detail) == (0, "timeout", "Slurm's time limit on node1")
    assert rig.log(token) == "up\nsaved\n"


@on_cluster
async def test_a_success_shortly_before_the_time_limit_is_a_success(rig: Rig):
    go = rig.folder / "go"
    token = rig.start(f"until [ -e {go} ]; do sleep 0.1; done", limit_s=60, warn_signal="USR1", warn_before_s=25.0)
    await rig.runs(token)
    job = (await rig.told(Submitted, token)).job
    rig.cluster.call("scancel", "--batch", "--signal=USR2", job)  # as Slurm does
    go.touch()
    end = await rig.end(token)
    assert (end.code, end.cause) == (0, "")


@on_cluster
async def test_a_job_that_gives_way_to_a_more_urgent_one_is_told_as_preempted(rig: Rig):
    token = rig.start("sleep 1000", gpus=4, options={"nodelist": "node1"})
    await rig.runs(token)
    rig.cluster.submit("sleep 1000", "--partition=high", "--gres=gpu:4", "--nodelist=node1", "--output=/dev/null")
    end = await rig.end(token)
    assert end.cause == "preempted"


def test_a_node_that_is_down_frees_nothing_while_its_processes_live(cluster: Cluster, tmp_path: Path):
    async def body(rig: Rig) -> None:
        pids = rig.folder / "pids"
        token = rig.start(f"echo $$ > {pids}.new; mv {pids}.new {pids}; sleep 1000")
        node = (await rig.runs(token)).nodes[0]
        await until(pids.exists)
        rig.cluster.kill_node(node)
        await until(lambda: rig.of(LeaderExited, token), patience_s=100)
        assert not lives(int(pids.read_text()))
        end = await rig.end(token)
        assert (end.cause, end.detail) == ("node_fail", f"Slurm lost {node}")

    run(cluster, tmp_path, body)


def test_a_node_that_is_down_with_all_that_ran_there_is_given_up_once_nothing_beats(cluster: Cluster, tmp_path: Path):
    async def body(rig: Rig) -> None:
        pids = rig.folder / "pids"
        token = rig.start(f"echo $$ $PPID > {pids}.new; mv {pids}.new {pids}; sleep 1000")
        node = (await rig.runs(token)).nodes[0]
        await until(pids.exists)
        command, wrapper = map(int, pids.read_text().split())
        rig.cluster.kill_node(node)
        for pid in (parent_of(wrapper), wrapper):  # slurmstepd would tell of it
            os.kill(pid, signal.SIGKILL)
        os.killpg(command, signal.SIGKILL)
        end = await rig.end(token, patience_s=100)
        assert (end.code, end.cause) == (None, "node_fail")

    run(cluster, tmp_path, body, limits=Limits(judge_s=0.2, stale_s=7.0))


@on_cluster
async def test_a_controller_that_is_killed_and_comes_back_changes_nothing_for_what_runs(rig: Rig):
    go = rig.folder / "go"
    tokens = [rig.start_counted(f"until [ -e {go} ]; do sleep 0.1; done; exit {code}") for code in (0, 3)]
    for token in tokens:
        await rig.runs(token)
    rig.cluster.restart_controller()  # it saves its state; without that it forgets what is younger than 5 s
    rig.cluster.kill_controller()
    await until(lambda: any("what runs goes on" in note for note in rig.notes))
    go.touch()
    assert [(await rig.end(token)).code for token in tokens] == [0, 3]
    rig.cluster.start_controller()
    assert [rig.runs_of(token) for token in tokens] == [1, 1]


@on_cluster
async def test_ends_are_told_while_the_controller_is_away(rig: Rig):
    go = rig.folder / "go"
    token = rig.start(f"until [ -e {go} ]; do sleep 0.1; done; exit 4")
    await rig.runs(token)
    rig.cluster.stop_controller()
    go.touch()
    assert (await rig.end(token)).code == 4


@on_cluster
async def test_a_job_that_a_controller_forgot_never_ran(rig: Rig):
    token = rig.start_counted(options={"extra": ["--hold"]})
    job = (await rig.told(Submitted, token)).job
    rig.cluster.stop_controller()
    for name in ("job_state", "job_state.old"):
        (rig.cluster.folder / "state" / name).unlink(missing_ok=True)
    rig.cluster.start_controller()
    await rig.never_ran(token)
    assert rig.runs_of(token) == 0
    assert job not in [each.id for each in rig.cluster.jobs() if token in each.comment]


@on_cluster
async def test_a_job_whose_node_does_not_share_the_folder_is_a_spawn_error_that_says_so(rig: Rig):
    token = rig.start("true", options={"extra": ["--hold"]})
    job = (await rig.told(Submitted, token)).job
    moved = rig.control.rename(rig.folder / "moved")
    rig.cluster.call("scontrol", "release", job)
    await until(lambda: rig.jobs_named(token) == ["FAILED"])
    moved.rename(rig.control)
    end = await rig.end(token)
    assert f"whether {rig.control} is there on node1" in end.spawn_error


def test_jobs_that_squeue_does_not_show_stay_while_the_controller_has_them(cluster: Cluster, tmp_path: Path):
    asked = tmp_path / "bin" / "asked"
    stand_in(tmp_path / "bin", "squeue", "exit 0")

    async def body(rig: Rig) -> None:
        one = rig.start("true", options={"extra": ["--hold"]})
        tokens = [one, *(rig.start("true", options={"extra": ["--hold"], "array": True}) for _ in range(2))]
        jobs = [(await rig.told(Submitted, token)).job for token in tokens]
        await until(lambda: asked.exists() and all(f"show job {job}\n" in asked.read_text() for job in jobs))
        for job in {job.partition("_")[0] for job in jobs}:
            rig.cluster.call("scontrol", "release", job)
        assert [(await rig.end(token)).code for token in tokens] == [0, 0, 0]

    environ = stand_in(tmp_path / "bin", "scontrol", 'echo "$*" >>"$HERE/asked"; exec "$REAL" "$@"')
    run(cluster, tmp_path, body, environ=environ)


def test_a_job_that_ended_and_was_forgotten_meanwhile_is_told_as_the_accounting_says(
    accounted_cluster: Cluster, tmp_path: Path
):
    async def body(rig: Rig) -> None:
        token = rig.start("true", options={"extra": ["--hold"]})
        job = (await rig.told(Submitted, token)).job
        rig.launcher.close()
        rig.cluster.call("scancel", job)
        await until(lambda: rig.jobs_named(token) == [])
        rig.again()
        rig.launcher.recover([rig.known(token, job)])
        assert (await rig.end(token)).cause == "cancelled"

    run(accounted_cluster, tmp_path, body)
