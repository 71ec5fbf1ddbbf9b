"""Where in an allocation a task goes, which GPUs are read there, and when we are in one at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import GpuReading
from gpudeck.engine.core.spec import DeckSettings
from gpudeck.engine.errors import EngineUnavailableError
from gpudeck.engine.ports import Telemetry
from tests.inside.adapters import (
    Allocation,
    AllocationProbe,
    Node,
    SimulatedProbe,
    across,
    look_at_allocation,
    look_at_gpus,
    step,
    step_anywhere,
)

TWO = Allocation(
    "7", (Node("node1", gpus=2, cpus=4, memory_mib=8000), Node("node2", gpus=2, cpus=8, memory_mib=32000)), "node1"
)


def words(*gpus: str, cpus: int | None = None, memory_mib: int | None = None) -> tuple[str, ...]:
    found = across(TWO, gpus, cpus, memory_mib, ("train", "-x"))
    assert found is not None
    return found


def test_a_task_on_gpus_of_another_node_is_a_step_there() -> None:
    found = words("node2:gpu0", cpus=3)
    assert ("--nodelist=node2" in found, "--gres=gpu:1" in found, found[-2:]) == (True, True, ("train", "-x"))


def test_a_task_on_gpus_of_this_box_runs_as_it_is() -> None:
    assert across(TWO, ["GPU-5f2a"], 1, None, ("train",)) is None


def test_a_task_without_gpus_goes_where_there_are_cores() -> None:
    found = words(cpus=6)
    assert ("--cpus-per-task=6" in found, any(word.startswith("--nodelist") for word in found)) == (True, False)


def test_a_task_without_gpus_asks_for_no_more_cores_and_memory_than_a_node_has() -> None:
    said = step_anywhere(TWO, cpus=99, memory_mib=None)
    assert said[-4:] == ("--gres=none", "--cpus-per-task=8", "--mem=8000M", "--")
    assert step_anywhere(TWO, cpus=2, memory_mib=None)[-2] == "--mem=4000M"
    assert step_anywhere(TWO, cpus=2, memory_mib=500)[-2] == "--mem=500M"


def test_a_step_has_a_core_though_its_node_has_fewer_than_gpus() -> None:
    assert "--cpus-per-task=1" in step(Node("n", gpus=4, cpus=2), gpus=1, cpus=None, memory_mib=None)


class Here(SimulatedProbe):
    """This box's probe, and what it was asked to read."""

    def __init__(self) -> None:
        super().__init__(2)
        self.asked: list[str] | None = None

    def start(self, uuids: Sequence[str], sink: Callable[[tuple[GpuReading, ...]], None], *, period_s: float) -> None:
        self.asked = list(uuids)
        super().start(uuids, sink, period_s=period_s)

    def telemetry(self, uuid: str) -> Telemetry | None:
        raise AssertionError(uuid)


@pytest.mark.parametrize(("uuids", "read"), [(["SIM-0", "node2:gpu0"], ["SIM-0"]), (["node2:gpu0"], None)])
def test_only_gpus_of_this_box_are_read(uuids: list[str], read: list[str] | None) -> None:
    here = Here()
    probe = AllocationProbe(TWO, here)
    probe.start(uuids, lambda _: None, period_s=1000.0)
    probe.stop()
    assert here.asked == read


def test_of_a_gpu_elsewhere_there_is_no_telemetry() -> None:
    assert AllocationProbe(TWO, Here()).telemetry("node2:gpu0") is None


# -- whether we are in an allocation ----------------------------------------------------------------------------------

SHOWN = "JobId=7\n   Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:2(IDX:0-1)\n"


@pytest.fixture
def told(tmp_path: Path) -> Callable[[str], Mapping[str, str]]:
    """An environment whose scontrol says this of the job."""

    def made(text: str) -> Mapping[str, str]:
        (tmp_path / "job").write_text(text)
        program = tmp_path / "scontrol"
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/job\n")
        program.chmod(0o755)
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}

    return made


def test_on_a_node_of_a_job_of_several_all_of_them_are_there(told: Callable[[str], Mapping[str, str]]) -> None:
    found = look_at_allocation({**told(SHOWN), "SLURMD_NODENAME": "node2", "SLURM_JOB_NUM_NODES": "2"})
    assert found is not None
    assert ([node.name for node in found.nodes], found.here) == (["node1", "node2"], "node2")


def test_in_a_shell_on_the_login_node_we_are_on_none_of_them(told: Callable[[str], Mapping[str, str]]) -> None:
    found = look_at_allocation({**told(SHOWN), "SLURM_JOB_NUM_NODES": "1"})
    assert found is not None
    assert (len(found.nodes), found.here) == (2, "")


def test_a_node_that_the_job_does_not_have_is_not_ours(told: Callable[[str], Mapping[str, str]]) -> None:
    found = look_at_allocation({**told(SHOWN), "SLURMD_NODENAME": "login1", "SLURM_JOB_NUM_NODES": "2"})
    assert found is not None
    assert found.here == ""


def test_on_the_one_node_of_a_job_nothing_is_asked() -> None:
    here = {"PATH": "/nowhere", "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_JOB_NUM_NODES": "1"}
    assert look_at_allocation(here) is None


def test_outside_of_a_job_nothing_is_asked() -> None:
    assert look_at_allocation({"PATH": "/nowhere"}) is None


def test_a_job_that_is_over_is_named(told: Callable[[str], Mapping[str, str]]) -> None:
    with pytest.raises(EngineUnavailableError, match="SLURM_JOB_ID is 7, and that job is over"):
        look_at_allocation(told("JobId=7\n   NodeList=(null)\n"))


def test_a_slurm_that_does_not_answer_is_told_as_such() -> None:
    with pytest.raises(EngineUnavailableError, match="scontrol show job -d 7 does not answer"):
        look_at_allocation({"PATH": "/nowhere", "SLURM_JOB_ID": "7"})


def test_the_cores_of_a_deck_in_an_allocation_are_those_of_all_its_nodes(
    told: Callable[[str], Mapping[str, str]],
) -> None:
    gpus = look_at_gpus(DeckSettings(gpus="all"), told(SHOWN))
    assert gpus.cores == 8
