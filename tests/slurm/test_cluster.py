"""The cluster of the tests itself: a job runs, and nothing is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.decks import lives, until
from tests.slurm.rig import Cluster, NoClusterError, running_cluster

pytestmark = pytest.mark.slurm


def test_a_job_sees_the_gpus_that_it_was_given(cluster: Cluster, tmp_path: Path):
    seen = tmp_path / "seen"
    cluster.submit(f"echo $CUDA_VISIBLE_DEVICES > {seen}.new; mv {seen}.new {seen}", "--gres=gpu:2")
    until(seen.exists)
    assert seen.read_text() == "0,1\n"


def test_a_job_outlives_a_controller_that_is_restarted(cluster: Cluster):
    job = cluster.submit("sleep 100", "--gres=gpu:1")
    until(lambda: [each.state for each in cluster.active()] == ["RUNNING"])
    cluster.restart_controller()
    assert [(each.id, each.state) for each in cluster.active()] == [(job, "RUNNING")]


def test_two_clusters_at_once_know_nothing_of_each_other(cluster: Cluster):
    with running_cluster(NODES=1, GPUS=0) as other:
        other.submit("sleep 100")
        assert cluster.active() == []
        assert len(other.active()) == 1


def test_a_stopped_cluster_leaves_neither_daemons_nor_jobs(tmp_path: Path):
    pids = tmp_path / "pids"
    with running_cluster(NODES=1, GPUS=1) as cluster:
        cluster.submit(
            f"(setsid sleep 1000 & echo $! > {pids}.new); echo $$ >> {pids}.new; mv {pids}.new {pids}; sleep 1000"
        )
        until(pids.exists)
        daemons = [int(file.read_text()) for file in (cluster.folder / "run").glob("*.pid")]
        assert len(daemons) == 3
    left = [*daemons, *map(int, pids.read_text().split())]
    until(lambda: not any(lives(pid) for pid in left))


def test_where_slurm_is_not_installed_and_cannot_be_the_line_names_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "mkdir", "realpath", "tail"):
        (tools / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(tools))
    cluster = Cluster(tmp_path / "slurm", {})
    with pytest.raises(NoClusterError, match=r"no Slurm for the tests: .*slurmctld slurmd slurm-client munge"):
        cluster.start()
