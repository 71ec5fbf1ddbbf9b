"""Which GPUs a deck gets, and which CUDA_VISIBLE_DEVICES an attempt gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpudeck.engine.errors import EngineUnavailableError, UsageError
from gpudeck.engine.ports import GpuInfo, Inventory
from tests.inside.adapters import choose, cuda_visible_devices


def box(count: int, *, start: int = 0) -> Inventory:
    gpus = [
        GpuInfo(uuid=f"GPU-{index}a{index}b-ffff", index=index, name="A40", total_mib=46068) for index in range(count)
    ]
    return Inventory(gpus=tuple(gpus[start:]), hardware=True)


def mig_box() -> Inventory:
    """A card without MIG, and two instances of another."""
    card = GpuInfo(uuid="GPU-plain", index=1, name="A100", total_mib=40960)
    parts = (GpuInfo(uuid=f"MIG-{index}", index=index, name="1g.5gb", total_mib=4864, mig=True) for index in (2, 3))
    return Inventory(gpus=(card, *parts), hardware=True)


def sim_box(*, hardware: bool) -> Inventory:
    gpus = (GpuInfo(uuid=f"SIM-{index}", index=index, name="SIM", total_mib=81920, simulated=True) for index in (0, 1))
    return Inventory(gpus=tuple(gpus), hardware=hardware)


LAPTOP = Inventory(gpus=())
BROKEN = Inventory(gpus=(), error="Driver/library version mismatch", hardware=True)


def uuids(inventory: Inventory, *wanted: int) -> list[str]:
    return [gpu.uuid for index in wanted for gpu in inventory.gpus if gpu.index == index]


# -- the deck's GPUs --------------------------------------------------------------------------------------------------


SLURM = {"SLURM_JOB_ID": "4711"}
ITS_GPUS = {**SLURM, "SLURM_JOB_GPUS": "2,3"}


@pytest.mark.parametrize(
    ("inventory", "wanted", "around", "gpus"),
    [
        pytest.param(box(4), "all", {}, [0, 1, 2, 3], id="all, in order"),
        pytest.param(box(4), "none", {}, [], id="none, although there are some"),
        pytest.param(box(8), ("7", "6", "5"), {}, [7, 6, 5], id="the order of a list is the order of preference"),
        pytest.param(box(4), ("GPU-2a2b-ffff",), {}, [2], id="by its UUID"),
        pytest.param(box(4), ("GPU-3a",), {}, [3], id="by the beginning of a UUID that fits one"),
        pytest.param(sim_box(hardware=False), 2, {}, [0, 1], id="simulated: those of the simulation"),
        pytest.param(
            sim_box(hardware=True),
            2,
            {"inherited": "0", "slurm": SLURM},
            [0, 1],
            id="simulated, whatever was inherited",
        ),
        pytest.param(mig_box(), ("3",), {}, [3], id="an instance by its number"),
        pytest.param(box(4), "all", {"inherited": "2,1"}, [2, 1], id="an inherited list"),
        pytest.param(box(4), "all", {"inherited": "GPU-3a3b-ffff,GPU-1a"}, [3, 1], id="inherited UUIDs"),
        pytest.param(mig_box(), "all", {"inherited": "MIG-3"}, [3], id="inherited instances"),
        pytest.param(box(4), "all", {"inherited": "1,-1,2"}, [1], id="what follows minus one is hidden, as in CUDA"),
        pytest.param(box(2), "all", {"inherited": "", "no_gpu": "cpu"}, [], id="hidden ones, where the CPU is wanted"),
        pytest.param(box(4), "all", {"slurm": ITS_GPUS}, [2, 3], id="those of a Slurm job"),
        pytest.param(box(4), "all", {"slurm": {**ITS_GPUS, "SLURM_STEP_GPUS": "1"}}, [1], id="those of a Slurm step"),
        pytest.param(box(2), "all", {"slurm": ITS_GPUS}, [0, 1], id="those that Slurm renumbered for the job"),
        pytest.param(box(4), ("1",), {"slurm": SLURM}, [1], id="a job without GPUs may name what it was promised"),
        pytest.param(box(4), "all", {"slurm": SLURM, "no_gpu": "cpu"}, [], id="a job without GPUs, on the CPU"),
        pytest.param(
            box(4),
            "all",
            {"inherited": "0", "slurm": ITS_GPUS},
            [0],
            id="CUDA_VISIBLE_DEVICES before Slurm's",
        ),
        pytest.param(LAPTOP, "all", {}, [], id="a box without devices falls back to the CPU"),
        pytest.param(LAPTOP, "all", {"no_gpu": "cpu"}, [], id="the CPU on a box without devices"),
        pytest.param(BROKEN, "all", {"no_gpu": "cpu"}, [], id="the CPU whatever the driver does"),
    ],
)
def test_a_deck_gets(
    inventory: Inventory, wanted: str | int | tuple[str, ...], around: dict[str, Any], gpus: list[int]
) -> None:
    assert [gpu.index for gpu in choose(inventory, wanted, **around)] == gpus


@pytest.mark.parametrize(
    ("inventory", "wanted", "around", "said"),
    [
        pytest.param(
            box(4), ("3",), {"inherited": "0,1"}, "GPU 3 is not ours to use: CUDA_VISIBLE_DEVICES=0,1 leaves GPUs 0-1",
            id="outside of the inherited list",
        ),
        pytest.param(
            box(2), "all", {"inherited": "0,9"}, "CUDA_VISIBLE_DEVICES=0,9 names 9, but this box has GPUs 0-1",
            id="an inherited list of what does not exist",
        ),
        pytest.param(
            mig_box(), "all", {"inherited": "3"}, "names 3, but this box has GPUs 1 and MIG instances 2-3",
            id="the number of an instance is ours, and means nothing in an inherited list",
        ),
        *(
            pytest.param(
                box(2), "all", {"inherited": hidden},
                "leaves gpudeck no GPU: change that, or run on the CPU with --gpus none",
                id=f"hidden by {hidden!r}: no training on the CPU",
            )
            for hidden in ("", "-1", "NoDevFiles")
        ),
        pytest.param(
            box(4), "all", {"slurm": SLURM}, r"Slurm job 4711 leaves gpudeck no GPU: ask for some \(--gres=gpu:N\)",
            id="a Slurm job without GPUs does not take those of others",
        ),
        pytest.param(
            LAPTOP, ("0", "1"), {}, "GPUs 0,1 cannot be used: no NVIDIA GPU here", id="named on a box without any"
        ),
    ],
)  # fmt: skip
def test_a_deck_is_refused(
    inventory: Inventory, wanted: str | tuple[str, ...], around: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        choose(inventory, wanted, **around)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (("9",), "gpus: no GPU 9; this box has GPUs 0-3 (see `gpudeck gpus`)"),
        (("GPU-7",), "gpus: no GPU GPU-7; this box has GPUs 0-3 (see `gpudeck gpus`)"),
        (("-1",), "gpus: no GPU -1; this box has GPUs 0-3 (see `gpudeck gpus`)"),
        (("1", "1"), "gpus: GPU 1 is named twice (1 and 1)"),
        (("1", "GPU-1a"), "gpus: GPU 1 is named twice (1 and GPU-1a)"),
    ],
)
def test_ids_that_cannot_be_meant_are_refused_by_name(ids: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(box(4), ids)

    assert str(caught.value) == message


def test_a_beginning_that_fits_several_is_refused() -> None:
    inventory = Inventory(gpus=(replace(box(1).gpus[0], uuid="GPU-5f2a-1"), replace(box(2).gpus[1], uuid="GPU-5f2a-2")))

    with pytest.raises(UsageError, match="GPU-5f2a fits GPU-5f2a-1 and GPU-5f2a-2; write more of it"):
        choose(inventory, ("GPU-5f2a",))


def test_every_wrong_id_is_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        choose(box(2), ("5", "0", "6"))

    assert len(str(caught.value).splitlines()) == 2


# -- no GPU -----------------------------------------------------------------------------------------------------------


def test_the_fallback_can_be_forbidden() -> None:
    with pytest.raises(EngineUnavailableError, match='no NVIDIA GPU here, and no_gpu = "fail"'):
        choose(LAPTOP, "all", no_gpu="fail")


def test_a_driver_that_does_not_answer_is_no_box_without_gpus() -> None:
    with pytest.raises(EngineUnavailableError, match="does not answer: Driver/library version mismatch"):
        choose(BROKEN, "all")


def test_a_device_without_any_word_from_the_driver_is_no_box_without_gpus() -> None:
    with pytest.raises(EngineUnavailableError):
        choose(Inventory(gpus=(), hardware=True), "all")


def test_an_error_without_hardware_is_no_box_without_gpus() -> None:
    with pytest.raises(EngineUnavailableError, match="NVML gave no answer"):
        choose(Inventory(gpus=(), error="NVML gave no answer in 60 s"), "all")


def test_a_driver_that_does_not_answer_ends_with_exit_code_three() -> None:
    with pytest.raises(EngineUnavailableError) as caught:
        choose(BROKEN, ("0",))

    assert caught.value.exit_code == 3


# -- what an attempt sees ---------------------------------------------------------------------------------------------


def test_a_gpu_lost_since_the_listing_makes_indices_unsafe() -> None:
    inventory = box(4)
    assert cuda_visible_devices(uuids(inventory, 3), inventory, lost=uuids(inventory, 1)) == "GPU-3a3b-ffff"


@pytest.mark.parametrize(
    ("inventory", "gpus", "inherited", "sees"),
    [
        pytest.param(box(4), (2, 0), None, "2,0", id="indices in the order of its GPUs"),
        pytest.param(box(4), (), None, "", id="nothing, as a CPU task"),
        pytest.param(mig_box(), (2,), None, "MIG-2", id="an instance by UUID"),
        pytest.param(mig_box(), (1,), None, "GPU-plain", id="a card beside one in MIG mode by UUID"),
        pytest.param(box(4, start=1), (3,), None, "GPU-3a3b-ffff", id="a UUID where one is missing from the listing"),
        pytest.param(box(2), (0,), "GPU-0a0b-ffff", "GPU-0a0b-ffff", id="UUIDs where they were inherited"),
        pytest.param(box(4), (3,), "3,1", "3", id="indices where they were inherited"),
        pytest.param(sim_box(hardware=False), (1,), None, "1", id="a simulated one by index where none is real"),
        pytest.param(sim_box(hardware=True), (1,), None, "SIM-1", id="a simulated one that never means a real one"),
    ],
)
def test_an_attempt_sees(inventory: Inventory, gpus: tuple[int, ...], inherited: str | None, sees: str) -> None:
    assert cuda_visible_devices(uuids(inventory, *gpus), inventory, inherited=inherited) == sees
