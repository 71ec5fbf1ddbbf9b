"""What a new engine makes of the jobs of an earlier one, at every stage at which that may have gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import Pending, Spawned, Submitted
from tests.inside.slurm import void
from tests.slurm.launcher_rig import Rig, on_cluster, run, stand_in, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm


@on_cluster
async def test_one_whose_sbatch_goes_on_without_its_engine_is_found(rig: Rig):
    token = rig.start_counted("sleep 1")
    rig.again()
    assert rig.launcher.recover([rig.known(token)]) == {token: "adopted"}
    gone = await rig.ended(token)
    assert rig.runs_of(token) == (0 if gone.never_ran else 1)


@on_cluster
async def test_one_that_waits_and_whose_number_was_never_written_is_found_by_its_token(rig: Rig):
    token = rig.start("true", options={"extra": ["--hold"]})
    job = (await rig.told(Submitted, token)).job
    rig.again()
    rig.launcher.recover([rig.known(token)])
    assert (await rig.told(Submitted, token)).job == job
    rig.cluster.call("scontrol", "release", job)
    assert (await rig.end(token)).code == 0


@on_cluster
async def test_one_that_waits_goes_on_waiting(rig: Rig):
    token = rig.start("true", options={"extra": ["--hold"]})
    job = (await rig.told(Submitted, token)).job
    rig.again()
    assert rig.launcher.recover([rig.known(token, job)]) == {token: "adopted"}
    await rig.told(Pending, token)
    rig.cluster.call("scontrol", "release", job)
    assert (await rig.end(token)).code == 0


@on_cluster
async def test_one_that_runs_is_told_to_run_and_its_end_is_told(rig: Rig):
    token = rig.start(f"until [ -e {rig.folder}/go ]; do sleep 0.1; done; exit 6")
    job = (await rig.runs(token)).job
    rig.again()
    assert rig.launcher.recover([rig.known(token, job)]) == {token: "adopted"}
    assert (await rig.told(Spawned, token)).job == job
    (rig.folder / "go").touch()
    assert (await rig.end(token)).code == 6


@on_cluster
async def test_one_that_runs_can_be_stopped_by_the_new_engine(rig: Rig):
    token = rig.start("sleep 1000")
    job = (await rig.runs(token)).job
    rig.again()
    rig.launcher.recover([rig.known(token, job)])
    rig.stop(token, grace_s=1)
    assert (await rig.end(token)).code == 143
    await until(lambda: not rig.cluster.active())


@on_cluster
async def test_one_that_ended_meanwhile_is_told_with_its_code(rig: Rig):
    token = rig.start("exit 5")
    await rig.runs(token)
    rig.launcher.close()
    await until(lambda: (rig.control / f"{token}.ended").exists())
    rig.again()
    assert rig.launcher.recover([rig.known(token)]) == {token: "ended"}
    assert (await rig.end(token)).code == 5


@on_cluster
async def test_one_whose_claim_the_engine_has_never_runs(rig: Rig):
    token = rig.start_counted(options={"extra": ["--hold"]})
    job = (await rig.told(Submitted, token)).job
    rig.again()
    assert void(str(rig.control), token) == "void"
    assert rig.launcher.recover([rig.known(token, job)]) == {token: "never ran"}
    await rig.never_ran(token)
    await until(lambda: rig.jobs_named(token) == ["CANCELLED"])
    assert rig.runs_of(token) == 0


@on_cluster
async def test_one_that_was_cancelled_meanwhile_is_told_as_cancelled(rig: Rig):
    token = rig.start("true", options={"extra": ["--hold"]})
    job = (await rig.told(Submitted, token)).job
    rig.launcher.close()
    rig.cluster.call("scancel", job)
    rig.again()
    rig.launcher.recover([rig.known(token, job)])
    assert (await rig.end(token)).cause == "cancelled"


@on_cluster
async def test_elements_of_an_array_whose_numbers_were_never_written_are_found(rig: Rig):
    tokens = [rig.start("exit 2", options={"array": True, "extra": ["--hold"]}) for _ in range(3)]
    jobs = [(await rig.told(Submitted, token)).job for token in tokens]
    rig.again()
    rig.launcher.recover([rig.known(token) for token in tokens])
    assert [(await rig.told(Submitted, token)).job for token in tokens] == jobs
    rig.cluster.call("scontrol", "release", jobs[0].partition("_")[0])
    assert [(await rig.end(token)).code for token in tokens] == [2, 2, 2]


def test_one_that_nobody_knows_any_more_and_whose_heart_has_stopped_is_lost(cluster: Cluster, tmp_path: Path):
    from tests.inside.slurm import Limits

    async def body(rig: Rig) -> None:
        token = os.urandom(12).hex()
        rig.launcher.close()
        (rig.control / f"{token}.claim").write_text("99999999\n")
        (rig.control / f"{token}.began").write_text("job=99999999\nnodes=node1\nwall=1\n")
        rig.again()
        assert rig.launcher.recover([rig.known(token, "99999999")]) == {token: "adopted"}
        end = await rig.end(token)
        assert (end.code, end.cause) == (None, "")
        assert "Slurm does not know it any more" in end.detail

    run(cluster, tmp_path, body, limits=Limits(judge_s=0.2, vanished_s=3.0, stale_s=3.0))


def test_one_whose_queue_cannot_be_asked_is_only_unknown_until_it_can(cluster: Cluster, tmp_path: Path):
    fails = (
        'if [ -e "$HERE/down" ]; then touch "$HERE/asked"; echo "squeue: error: no" >&2; exit 1; fi; exec "$REAL" "$@"'
    )

    async def body(rig: Rig) -> None:
        token = rig.start(f"until [ -e {rig.folder}/go ]; do sleep 0.1; done")
        job = (await rig.runs(token)).job
        rig.again()
        (tmp_path / "bin" / "down").touch()
        rig.launcher.recover([rig.known(token, job)])
        await until((tmp_path / "bin" / "asked").exists)
        await until(lambda: rig.notes)
        assert "what runs goes on" in rig.notes[0]
        (tmp_path / "bin" / "down").unlink()
        await until(lambda: "Slurm answers again" in rig.notes)
        (rig.folder / "go").touch()
        assert (await rig.end(token)).code == 0

    run(cluster, tmp_path, body, environ=stand_in(tmp_path / "bin", "squeue", fails))
