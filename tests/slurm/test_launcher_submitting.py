"""Submissions that go wrong: none is lost, and none runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import SpawnRefused, Submitted
from tests.inside.slurm import Limits
from tests.slurm.launcher_rig import Rig, on_cluster, run, stand_in, until
from tests.slurm.rig import Cluster, running_cluster

pytestmark = pytest.mark.slurm

SUBMITS_AND_DIES = '"$REAL" "$@" >/dev/null; kill -9 $$'
FAILS_WITHOUT_A_WORD = '"$REAL" "$@" >/dev/null; exit 1'
ONCE = 'if mkdir "$HERE/first" 2>/dev/null; then %s; fi; exec "$REAL" "$@"'


@pytest.mark.parametrize("text", [SUBMITS_AND_DIES, FAILS_WITHOUT_A_WORD])
def test_a_job_whose_sbatch_died_after_it_was_taken_is_found_and_runs_once(cluster: Cluster, tmp_path: Path, text: str):
    async def body(rig: Rig) -> None:
        token = rig.start_counted()
        assert (await rig.end(token)).code == 0
        assert rig.runs_of(token) == 1
        assert len(rig.jobs_named(token)) == 1

    run(cluster, tmp_path, body, environ=stand_in(tmp_path / "bin", "sbatch", text))


def test_a_job_that_comes_after_it_was_given_up_runs_nothing_and_leaves_the_queue(cluster: Cluster, tmp_path: Path):
    late = 'cat >"$HERE/script"; kill -9 $$'

    async def body(rig: Rig) -> None:
        token = rig.start_counted()
        await rig.never_ran(token)
        rig.cluster.call("sbatch", "--hold", str(tmp_path / "bin" / "script"))
        rig.start("sleep 1000")  # while there is something to ask for
        await until(lambda: rig.jobs_named(token) == ["CANCELLED"])
        rig.cluster.call("sbatch", str(tmp_path / "bin" / "script"))
        await until(lambda: "PENDING" not in rig.jobs_named(token) and "RUNNING" not in rig.jobs_named(token))
        assert rig.runs_of(token) == 0

    run(cluster, tmp_path, body, environ=stand_in(tmp_path / "bin", "sbatch", late))


def test_the_elements_of_an_array_are_found_too_where_sbatch_died(cluster: Cluster, tmp_path: Path):
    async def body(rig: Rig) -> None:
        tokens = [rig.start_counted(f"exit {code}", options={"array": True}) for code in (0, 4)]
        assert [(await rig.end(token)).code for token in tokens] == [0, 4]
        assert [rig.runs_of(token) for token in tokens] == [1, 1]

    run(cluster, tmp_path, body, environ=stand_in(tmp_path / "bin", "sbatch", SUBMITS_AND_DIES))


def test_what_slurm_does_not_take_for_now_is_tried_again(cluster: Cluster, tmp_path: Path):
    busy = "{ echo 'sbatch: error: Batch job submission failed: Resource temporarily unavailable' >&2; exit 1; }"

    async def body(rig: Rig) -> None:
        token = rig.start_counted()
        assert (await rig.end(token)).code == 0
        assert len(rig.jobs_named(token)) == 1
        assert any("Slurm takes no job for now" in note for note in rig.notes)

    run(cluster, tmp_path, body, environ=stand_in(tmp_path / "bin", "sbatch", ONCE % busy))


def test_a_refusal_after_which_there_is_a_job_all_the_same_makes_no_second_one(cluster: Cluster, tmp_path: Path):
    lies = "{ $REAL \"$@\" >/dev/null; echo 'sbatch: error: Resource temporarily unavailable' >&2; exit 1; }"

    async def body(rig: Rig) -> None:
        token = rig.start_counted()
        assert (await rig.end(token)).code == 0
        assert (rig.runs_of(token), len(rig.jobs_named(token))) == (1, 1)

    run(cluster, tmp_path, body, environ=stand_in(tmp_path / "bin", "sbatch", ONCE % lies))


@on_cluster
async def test_a_controller_that_is_away_is_waited_for_and_gets_each_job_once(rig: Rig):
    rig.cluster.stop_controller()
    token = rig.start_counted()
    await until(lambda: rig.notes)
    rig.cluster.start_controller()
    assert (await rig.end(token)).code == 0
    assert (rig.runs_of(token), len(rig.jobs_named(token))) == (1, 1)


@on_cluster
async def test_a_controller_that_hangs_makes_no_job_run_twice(rig: Rig):
    with rig.cluster.without("slurmctld"):
        token = rig.start_counted()
        await until(lambda: any("no answer" in note for note in rig.notes))
    gone = await rig.ended(token)
    assert rig.runs_of(token) == (0 if gone.never_ran else 1)
    await until(lambda: not rig.cluster.active())


@on_cluster
async def test_a_script_that_cannot_be_written_is_a_refusal_not_an_end(rig: Rig):
    (rig.folder / "file").write_text("")
    token = rig.start("true", script=str(rig.folder / "file" / "attempt-1.sh"))
    refused = await rig.told(SpawnRefused, token)
    assert str(rig.folder / "file") in refused.why
    assert len(rig.inputs) == 1


@on_cluster
async def test_a_hundred_attempts_give_a_hundred_jobs(rig: Rig):
    tokens = [rig.start_counted(gpus=0) for _ in range(100)]
    for token in tokens:
        assert (await rig.end(token)).code == 0
        assert rig.runs_of(token) == 1
    assert len({(await rig.told(Submitted, token)).job for token in tokens}) == 100


def test_more_jobs_than_the_cluster_holds_all_run_once(tmp_path: Path):
    async def body(rig: Rig) -> None:
        tokens = [rig.start_counted(gpus=0) for _ in range(8)]
        ran = 0
        while tokens:
            gone = [await rig.ended(token) for token in tokens]
            for each in gone:
                assert rig.runs_of(each.token) == (0 if each.never_ran else 1)
            ran += sum(not each.never_ran for each in gone)
            tokens = [rig.start_counted(gpus=0) for each in gone if each.never_ran]
        assert ran == 8

    with running_cluster(NODES=1, GPUS=1, MIN_JOB_AGE=2, EXTRA="MaxJobCount=5") as small:
        run(small, tmp_path, body, limits=Limits(judge_s=0.2, settle_s=2.0, back_off_s=1.0))
