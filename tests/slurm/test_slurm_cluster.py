"""The cluster's picture from what Slurm prints."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.e2e.decks import until
from tests.inside.slurm import (
    Answer,
    ClusterView,
    Gpus,
    UserJob,
    cluster_of,
    partitions_of,
    read_cluster,
    run_program,
    small_environment,
)
from tests.slurm.rig import Cluster

SINFO = """\
main*|up|drained|1|0/0/8/8|gpu:a100:4|gpu:a100:0(IDX:N/A)|
main*|up|mixed|1|2/6/0/8|gpu:h100:4|gpu:h100:1(IDX:0)|
main*|up|allocated|2|16/0/0/16|gpu:a100:4(S:0-1)|gpu:a100:4(IDX:0-3)|
main*|up|idle|10|0/80/0/80|gpu:a100:4|gpu:a100:0(IDX:N/A)|
main*|up|idle*|1|0/8/0/8|gpu:a100:4|gpu:a100:0(IDX:N/A)|
cpu|up|idle|2|0/8/0/8|(null)|(null)|
empty|down|n/a|0|0/0/0/0|(null)|(null)|
"""
SQUEUE = "1|RUNNING|main\n2_0|PENDING|main,cpu\n3|COMPLETING|main\nslurm_load_jobs: error\n"


def test_nodes_that_are_drained_or_silent_have_no_free_gpus():
    main = partitions_of(SINFO)[0]
    assert main.gpus == (Gpus("a100", 40, 56), Gpus("h100", 3, 4))
    assert (main.gpus_free, main.gpus_total) == (43, 60)
    assert (main.nodes_idle, main.nodes_up, main.nodes_total) == (10, 13, 15)
    assert (main.cpus_free, main.cpus_total) == (86, 120)


def test_partitions_stand_in_slurms_order_and_one_is_the_default():
    found = partitions_of(SINFO)
    assert [(each.name, each.default, each.state) for each in found] == [
        ("main", True, "up"),
        ("cpu", False, "up"),
        ("empty", False, "down"),
    ]


def test_a_job_that_waits_may_do_so_in_two_partitions():
    assert cluster_of(SINFO, SQUEUE, 1.0).jobs == (
        UserJob("1", False, ("main",)),
        UserJob("2_0", True, ("main", "cpu")),
        UserJob("3", False, ("main",)),
    )


@pytest.mark.parametrize("line", ["", "slurm_load_partitions: error", "main|up|idle|x|0/8/0/8|gpu:1|gpu:0|"])
def test_a_line_that_is_none_is_passed_over(line: str):
    assert partitions_of(line + "\n" + SINFO) == partitions_of(SINFO)


def test_what_was_known_stays_when_slurm_does_not_answer():
    before = cluster_of(SINFO, SQUEUE, 1.0)

    def silent(_: Sequence[str]) -> Answer:
        return Answer(1, "", "slurm_load_partitions: Unable to contact slurm controller\n")

    view = read_cluster(silent, 0, 2.0, before)
    assert view.problem == "sinfo: slurm_load_partitions: Unable to contact slurm controller"
    assert (view.partitions, view.at) == (before.partitions, 1.0)


@pytest.mark.slurm
def test_the_picture_of_a_real_cluster(cluster: Cluster):
    begins = cluster.submit("sleep 100", "--gres=gpu:3", "--cpus-per-task=2")
    waits = cluster.submit("sleep 100", "--gres=gpu:4", "--nodes=2", "--ntasks-per-node=1")

    def look() -> ClusterView:
        environ = small_environment({**os.environ, **cluster.env})
        return read_cluster(lambda argv: run_program(argv, environ, timeout_s=30), os.getuid(), 5.0)

    def begun() -> ClusterView | None:
        """Nodes and jobs are told one after the other: the job may begin in between."""
        view = look()
        return view if view.partitions[0].gpus_free < 8 and [job.waits for job in view.jobs].count(False) == 1 else None

    view = until(begun)
    main = view.partitions[0]
    assert (view.problem, view.at) == ("", 5.0)
    assert set(view.jobs) == {UserJob(begins, False, ("main",)), UserJob(waits, True, ("main",))}
    assert (main.name, main.default, main.state) == ("main", True, "up")
    assert main.gpus == (Gpus("", 5, 8),)
    assert (main.cpus_free, main.cpus_total, main.nodes_idle, main.nodes_up) == (14, 16, 1, 2)
