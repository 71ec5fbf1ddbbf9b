"""What a job has on its nodes, as Slurm's text tells it, and what goes before a command to run it there."""

from __future__ import annotations

import pytest

from tests.inside.adapters import Allocation, Node, nodes_in, step

ALIKE = """JobId=1 JobName=inner.sh
   JobState=RUNNING Reason=None Dependency=(null)
   NodeList=node[1-2]
   TRES=cpu=8,node=2,billing=8
   JOB_GRES=gpu:4
     Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:2(IDX:0-1)
   MinCPUsNode=4 MinMemoryNode=0 MinTmpDiskNode=0
"""
DIFFERENT = """JobId=77 JobName=x
   JOB_GRES=gpu:a100:5
     Nodes=big1 CPU_IDs=0-7,16-23 Mem=64000 GRES=gpu:a100:4(IDX:0-3)
     Nodes=small[1-2] CPU_IDs=2 Mem=4000 GRES=
     Nodes=mixed CPU_IDs=0-1 Mem=8000 GRES=gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2)
"""


def test_nodes_that_differ_stand_in_a_line_each() -> None:
    assert nodes_in(DIFFERENT) == (
        Node("big1", gpus=4, model="a100", cpus=16, memory_mib=64000),
        Node("small1", gpus=0, model="", cpus=1, memory_mib=4000),
        Node("small2", gpus=0, model="", cpus=1, memory_mib=4000),
        Node("mixed", gpus=3, model="", cpus=2, memory_mib=8000),
    )


@pytest.mark.parametrize(
    "text", ["", "slurm_load_jobs error: Invalid job id specified", "JobId=1\n  NodeList=(null)\n"]
)
def test_of_a_job_without_nodes_nothing_is_told(text: str) -> None:
    assert nodes_in(text) == ()


def test_each_name_of_a_list_is_a_node_with_what_the_list_has() -> None:
    found = nodes_in(ALIKE)
    assert found == (Node("node1", gpus=2, cpus=4), Node("node2", gpus=2, cpus=4))
    assert Allocation("1", found).cpus == 8


def words(node: Node, *, gpus: int, cpus: int | None = None, memory_mib: int | None = None) -> str:
    return " ".join(step(node, gpus=gpus, cpus=cpus, memory_mib=memory_mib))


def test_a_step_asks_for_its_node_its_gpus_and_its_cores_alone() -> None:
    node = Node("node2", gpus=4, cpus=8)
    said = words(node, gpus=2, cpus=4)
    assert said.startswith("srun --exact ")
    assert said.endswith("--nodes=1 --ntasks=1 --nodelist=node2 --cpus-per-task=4 --gres=gpu:2 --")


@pytest.mark.parametrize(
    ("gpus", "cpus", "word"),
    [
        (1, 1, "--gres=gpu:1"),
        (1, 64, "--cpus-per-task=16"),
        (2, None, "--cpus-per-task=8"),
    ],
    ids=["GPUs of any type", "no more cores than there are", "the share of its GPUs"],
)
def test_a_step_asks_for_what_it_may_have(gpus: int, cpus: int | None, word: str) -> None:
    assert f"{word} " in words(Node("n", gpus=4, model="a100", cpus=16), gpus=gpus, cpus=cpus)


@pytest.mark.parametrize(("gpus", "asked", "mem"), [(1, None, 16000), (4, None, 64000), (1, 2048, 2048)])
def test_where_memory_counts_a_step_takes_what_it_asks_for_or_the_share_of_its_gpus(
    gpus: int, asked: int | None, mem: int
) -> None:
    node = Node("n", gpus=4, cpus=16, memory_mib=64000)
    assert f"--mem={mem}M " in words(node, gpus=gpus, cpus=4, memory_mib=asked)


def test_where_memory_does_not_count_a_step_asks_for_none() -> None:
    assert "--mem" not in words(Node("n", gpus=4, cpus=16), gpus=1, cpus=4, memory_mib=2048)
