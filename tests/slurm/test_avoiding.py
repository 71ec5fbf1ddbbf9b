"""Nodes that failed under a task are avoided, but no task is made impossible by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import Pending, Submitted
from tests.e2e.decks import Deck
from tests.slurm.launcher_rig import Rig, on_cluster, run, until
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm


def excluded(rig: Rig, job: str) -> str:
    """As Slurm says."""
    return rig.cluster.call("scontrol", "show", "job", job).partition("ExcNodeList=")[2].split()[0]


@on_cluster
async def test_a_node_that_failed_is_avoided_where_there_is_another(rig: Rig):
    token = rig.start("true", exclude=("node1",))
    assert (await rig.runs(token)).nodes == ("node2",)
    assert rig.notes == []


@on_cluster
async def test_nodes_that_failed_are_used_where_slurm_refuses_a_job_without_them(rig: Rig):
    token = rig.start("true", exclude=("node1", "node2"))
    assert (await rig.end(token)).code == 0
    assert [note.partition(": ")[2] for note in rig.notes] == [
        "Slurm has no other node now than what failed before (node1, node2), which is not avoided"
    ]


@on_cluster
async def test_an_array_goes_to_nodes_that_failed_where_slurm_refuses_it_without_them(rig: Rig):
    tokens = [rig.start("true", options={"array": True}, exclude=("node1", "node2")) for _ in range(3)]
    assert [(await rig.end(token)).code for token in tokens] == [0, 0, 0]
    assert [" and 2 more: " in note for note in rig.notes] == [True]


@on_cluster
async def test_what_slurm_refuses_anyway_is_refused_once_and_in_its_words(rig: Rig):
    token = rig.start("true", options={"partition": "nowhere"}, exclude=("node1",))
    assert "partition" in (await rig.end(token)).spawn_error.lower()
    assert rig.notes == []


def test_the_tasks_own_exclusion_stays(cluster: Cluster, tmp_path: Path):
    async def body(rig: Rig) -> None:
        token = rig.start("true", options={"exclude": "node1"}, exclude=("node2",))
        assert (await rig.runs(token)).nodes == ("node2",)

    run(cluster, tmp_path, body)


def test_a_job_that_waits_for_busy_nodes_goes_on_avoiding_the_one_that_failed(cluster: Cluster, tmp_path: Path):
    async def body(rig: Rig) -> None:
        cluster.submit("sleep 1000", "--nodelist=node2", "--exclusive")
        token = rig.start("true", exclude=("node1",))
        job = (await rig.told(Submitted, token)).job
        await rig.told(Pending, token)
        await until(lambda: cluster.call("squeue", "-h", "-j", job, "-o", "%r") in ("Resources", "Priority"))
        assert (excluded(rig, job), rig.notes) == ("node1", [])

    run(cluster, tmp_path, body)


def test_a_node_that_does_not_have_the_program_fails_no_task(deck: Deck, cluster: Cluster) -> None:
    deck.write(
        """
        [deck]
        backend = "slurm"
        [[task]]
        name = "t{i}"
        matrix.i = [0, 1, 2, 3]
        gpus = 4
        command = "exec ./on-$SLURMD_NODENAME"
        """
    )
    deck.write("#!/bin/sh\nsleep 1; echo $SLURMD_NODENAME >>seen\n", "on-node1")
    (deck.folder / "on-node1").chmod(0o755)
    ran = deck.run()
    assert (ran.code, deck.lines("seen")) == (0, ["node1"] * 4), ran.out + ran.err
    assert {end["next"] for end in ran.events if end["event"] == "task_ended" and end["exit_code"]} == {"backoff"}
    told = [note["text"] for note in ran.events if note["event"] == "note" and "could not start" in note["text"]]
    assert [text.partition(" ")[2] for text in told] == [
        "could not start on node2: tasks of t{i} avoid it while there is another"
    ]
