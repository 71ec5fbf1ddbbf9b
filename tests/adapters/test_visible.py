"""Which GPUs a deck gets, and which CUDA_VISIBLE_DEVICES an attempt gets."""

from __future__ import annotations

from dataclasses import replace

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


def indices(gpus: tuple[GpuInfo, ...]) -> list[int]:
    return [gpu.index for gpu in gpus]


def uuids(inventory: Inventory, *wanted: int) -> list[str]:
    return [gpu.uuid for index in wanted for gpu in inventory.gpus if gpu.index == index]


# -- the deck's GPUs --------------------------------------------------------------------------------------------------


def test_all_is_every_gpu_in_order() -> None:
    assert indices(choose(box(4), "all")) == [0, 1, 2, 3]


def test_none_is_no_gpu_although_there_are_some() -> None:
    assert choose(box(4), "none") == ()


def test_the_order_of_a_list_is_the_order_of_preference() -> None:
    assert indices(choose(box(8), ("7", "6", "5"))) == [7, 6, 5]


def test_a_gpu_may_be_named_by_its_uuid() -> None:
    assert indices(choose(box(4), ("GPU-2a2b-ffff",))) == [2]


def test_the_beginning_of_a_uuid_is_enough_where_it_fits_one() -> None:
    assert indices(choose(box(4), ("GPU-3a",))) == [3]


def test_simulated_gpus_are_what_the_simulation_has() -> None:
    assert indices(choose(sim_box(hardware=False), 2)) == [0, 1]


def test_simulated_gpus_are_not_limited_by_what_was_inherited() -> None:
    assert indices(choose(sim_box(hardware=True), 2, inherited="0", slurm={"SLURM_JOB_ID": "7"})) == [0, 1]


def test_instances_may_be_named_by_their_numbers() -> None:
    assert [gpu.uuid for gpu in choose(mig_box(), ("3",))] == ["MIG-3"]


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


# -- limits that were inherited ---------------------------------------------------------------------------------------


def test_an_inherited_list_limits_what_all_means() -> None:
    assert indices(choose(box(4), "all", inherited="2,1")) == [2, 1]


def test_inherited_uuids_limit_what_all_means() -> None:
    assert indices(choose(box(4), "all", inherited="GPU-3a3b-ffff,GPU-1a")) == [3, 1]


def test_inherited_instances_limit_what_all_means() -> None:
    assert [gpu.uuid for gpu in choose(mig_box(), "all", inherited="MIG-3")] == ["MIG-3"]


def test_what_follows_minus_one_is_hidden_as_in_cuda() -> None:
    assert indices(choose(box(4), "all", inherited="1,-1,2")) == [1]


def test_a_gpu_outside_the_inherited_list_is_refused() -> None:
    with pytest.raises(UsageError, match="GPU 3 is not ours to use: CUDA_VISIBLE_DEVICES=0,1 leaves GPUs 0-1"):
        choose(box(4), ("3",), inherited="0,1")


def test_an_inherited_list_of_gpus_that_do_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES=0,9 names 9, but this box has GPUs 0-1"):
        choose(box(2), "all", inherited="0,9")


def test_the_number_of_an_instance_is_ours_and_means_nothing_in_an_inherited_list() -> None:
    with pytest.raises(UsageError, match="names 3, but this box has GPUs 1 and MIG instances 2-3"):
        choose(mig_box(), "all", inherited="3")


@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
def test_hidden_gpus_do_not_become_training_on_the_cpu(hidden: str) -> None:
    with pytest.raises(UsageError, match="leaves gpudeck no GPU: change that, or run on the CPU with --gpus none"):
        choose(box(2), "all", inherited=hidden)


def test_hidden_gpus_are_fine_where_the_deck_asks_for_the_cpu() -> None:
    assert choose(box(2), "all", inherited="", no_gpu="cpu") == ()


def test_a_slurm_job_uses_its_own_gpus() -> None:
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_JOB_GPUS": "2,3"}

    assert indices(choose(box(4), "all", slurm=slurm)) == [2, 3]


def test_a_slurm_step_uses_its_own_gpus_and_not_its_jobs() -> None:
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_JOB_GPUS": "0,1,2", "SLURM_STEP_GPUS": "1"}

    assert indices(choose(box(4), "all", slurm=slurm)) == [1]


def test_gpus_that_slurm_renumbered_for_the_job_are_all_its_own() -> None:
    assert indices(choose(box(2), "all", slurm={"SLURM_JOB_ID": "4711", "SLURM_JOB_GPUS": "6,7"})) == [0, 1]


def test_a_slurm_job_without_gpus_does_not_take_those_of_others() -> None:
    with pytest.raises(UsageError, match=r"Slurm job 4711 leaves gpudeck no GPU: ask for some \(--gres=gpu:N\)"):
        choose(box(4), "all", slurm={"SLURM_JOB_ID": "4711"})


def test_a_slurm_job_without_gpus_may_name_those_it_was_promised() -> None:
    assert indices(choose(box(4), ("1",), slurm={"SLURM_JOB_ID": "4711"})) == [1]


def test_a_slurm_job_without_gpus_runs_on_the_cpu_where_the_deck_asks_for_it() -> None:
    assert choose(box(4), "all", slurm={"SLURM_JOB_ID": "4711"}, no_gpu="cpu") == ()


def test_cuda_visible_devices_counts_more_than_slurms_own_variables() -> None:
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_JOB_GPUS": "2,3"}

    assert indices(choose(box(4), "all", inherited="0", slurm=slurm)) == [0]


# -- no GPU -----------------------------------------------------------------------------------------------------------


def test_a_box_without_nvidia_devices_falls_back_to_the_cpu() -> None:
    assert choose(LAPTOP, "all") == ()


def test_the_fallback_can_be_forbidden() -> None:
    with pytest.raises(EngineUnavailableError, match='no NVIDIA GPU here, and no_gpu = "fail"'):
        choose(LAPTOP, "all", no_gpu="fail")


def test_gpus_that_are_named_on_a_box_without_any_are_refused() -> None:
    with pytest.raises(UsageError, match="GPUs 0,1 cannot be used: no NVIDIA GPU here"):
        choose(LAPTOP, ("0", "1"))


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


@pytest.mark.parametrize("inventory", [LAPTOP, BROKEN])
def test_the_cpu_can_be_asked_for_whatever_the_driver_does(inventory: Inventory) -> None:
    assert choose(inventory, "all", no_gpu="cpu") == ()


# -- what an attempt sees ---------------------------------------------------------------------------------------------


def test_an_attempt_sees_indices_in_the_order_of_its_gpus() -> None:
    inventory = box(4)

    assert cuda_visible_devices(uuids(inventory, 2, 0), inventory) == "2,0"


def test_a_cpu_task_sees_no_gpu() -> None:
    assert cuda_visible_devices([], box(4)) == ""


def test_instances_are_named_by_uuid() -> None:
    assert cuda_visible_devices(["MIG-2"], mig_box()) == "MIG-2"


def test_a_card_beside_one_in_mig_mode_is_named_by_uuid() -> None:
    assert cuda_visible_devices(["GPU-plain"], mig_box()) == "GPU-plain"


def test_a_gpu_lost_since_the_listing_makes_indices_unsafe() -> None:
    inventory = box(4)

    assert cuda_visible_devices(uuids(inventory, 3), inventory, lost=uuids(inventory, 1)) == "GPU-3a3b-ffff"


def test_a_gpu_missing_from_the_listing_makes_indices_unsafe() -> None:
    inventory = box(4, start=1)

    assert cuda_visible_devices(uuids(inventory, 3), inventory) == "GPU-3a3b-ffff"


def test_inherited_uuids_are_answered_with_uuids() -> None:
    inventory = box(2)

    assert cuda_visible_devices(uuids(inventory, 0), inventory, inherited="GPU-0a0b-ffff") == "GPU-0a0b-ffff"


def test_inherited_indices_are_answered_with_indices() -> None:
    inventory = box(4)

    assert cuda_visible_devices(uuids(inventory, 3), inventory, inherited="3,1") == "3"


def test_a_simulated_gpu_has_an_index_where_no_real_one_can_be_meant() -> None:
    assert cuda_visible_devices(["SIM-1"], sim_box(hardware=False)) == "1"


def test_a_simulated_gpu_never_means_a_real_one() -> None:
    assert cuda_visible_devices(["SIM-1"], sim_box(hardware=True)) == "SIM-1"
