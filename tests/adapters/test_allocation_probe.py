"""The GPUs of all nodes of a job in one list."""

from __future__ import annotations

from tests.inside.adapters import Allocation, AllocationProbe, Node, SimulatedProbe, node_of

TWO = (Node("node1", gpus=2), Node("node2", gpus=2, model="a100"))


def found(here: str, own: int) -> list[tuple[int, str, str]]:
    inventory = AllocationProbe(Allocation("7", TWO, here), SimulatedProbe(own)).discover()
    return [(gpu.index, gpu.uuid, gpu.name) for gpu in inventory.gpus]


def test_on_a_login_node_all_gpus_are_those_of_the_nodes() -> None:
    assert found("", 3) == [
        (0, "node1:gpu0", "GPU on node1"),
        (1, "node1:gpu1", "GPU on node1"),
        (2, "node2:gpu0", "a100 on node2"),
        (3, "node2:gpu1", "a100 on node2"),
    ]


def test_on_one_of_its_nodes_the_driver_tells_of_that_nodes_gpus() -> None:
    assert [(index, uuid) for index, uuid, _ in found("node1", 2)] == [
        (0, "SIM-0"), (1, "SIM-1"), (2, "node2:gpu0"), (3, "node2:gpu1"),
    ]  # fmt: skip


def test_a_node_whose_driver_lists_nothing_has_what_slurm_says() -> None:
    assert [uuid for _, uuid, _ in found("node1", 0)] == ["node1:gpu0", "node1:gpu1", "node2:gpu0", "node2:gpu1"]


def test_a_gpu_tells_which_node_it_is_on() -> None:
    assert [node_of(uuid) for uuid in ("node2:gpu0", "SIM-0", "GPU-5f2a")] == ["node2", "", ""]
