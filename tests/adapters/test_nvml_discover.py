"""The inventory: cards, MIG instances, topology, and boxes whose driver does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.nvml_double.box import Box
from tests.inside.adapters import NvmlProbe, has_nvidia_hardware

GPU_IS_LOST, UNKNOWN = 15, 999


class Roots:
    """A made-up /sys and /dev."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.dev = folder / "sys", folder / "dev"
        self.dev.mkdir()
        self.sys.mkdir()

    def add_pci(self, vendor: str, kind: str) -> None:
        folder = self.sys / "bus" / "pci" / "devices" / f"0000:{vendor[2:4]}:{kind[2:4]}.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")

    def probe(self) -> NvmlProbe:
        return NvmlProbe(sys_root=str(self.sys), dev_root=str(self.dev))

    @property
    def hardware(self) -> bool:
        return has_nvidia_hardware(str(self.sys), str(self.dev))


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    return Roots(tmp_path)


# -- cards ------------------------------------------------------------------------------------------------------------


def test_a_card_is_listed_with_what_does_not_change(box: Box) -> None:
    box.set(count=1)

    (gpu,) = NvmlProbe().discover().gpus

    assert (gpu.uuid, gpu.index, gpu.name, gpu.total_mib) == ("GPU-double-0", 0, "NVIDIA A40", 46068)
    assert (gpu.slowdown_c, gpu.power_limit_w, gpu.mig, gpu.simulated) == (98, 300.0, False, False)


def test_the_driver_version_is_told(box: Box) -> None:
    box.set(driver="575.51.03")

    assert NvmlProbe().discover().driver == "575.51.03"


def test_gpus_that_answer_are_hardware_whatever_the_bus_shows(box: Box, roots: Roots) -> None:
    box.set(**{"gpu.0.name": "NVIDIA RTX (WSL)"})

    assert roots.probe().discover().hardware


def test_details_that_the_driver_does_not_tell_are_unknown(box: Box) -> None:
    box.set(count=1, **{f"gpu.0.{key}": None for key in ("total", "limit", "slowdown")})

    (gpu,) = NvmlProbe().discover().gpus

    assert (gpu.total_mib, gpu.power_limit_w, gpu.slowdown_c) == (None, None, None)


def test_a_lost_card_does_not_hide_the_others(box: Box) -> None:
    box.lose(0)

    assert [gpu.index for gpu in NvmlProbe().discover().gpus] == [1]


def test_a_card_that_could_not_be_listed_is_named(box: Box) -> None:
    box.lose(1)
    probe = NvmlProbe()
    probe.discover()

    assert probe.problems == ("GPU 1: GPU is lost",)


def test_a_box_whose_cards_are_all_lost_says_so(box: Box) -> None:
    box.lose(0)
    box.lose(1)

    inventory = NvmlProbe().discover()

    assert (inventory.gpus, inventory.error) == ((), "GPU 0: GPU is lost; GPU 1: GPU is lost")


# -- drivers that do not answer ---------------------------------------------------------------------------------------


def test_a_driver_mismatch_is_told_in_nvmls_words(box: Box, roots: Roots) -> None:
    roots.add_pci("0x10de", "0x030200")
    box.set(init=18)

    inventory = roots.probe().discover()

    assert (inventory.gpus, inventory.hardware) == ((), True)
    assert inventory.error == "Driver/library version mismatch"


def test_an_unreachable_driver_without_any_device_is_no_error(box: Box, roots: Roots) -> None:
    box.set(init=9)

    inventory = roots.probe().discover()

    assert (inventory.error, inventory.hardware) == ("", False)


def test_a_driver_that_answers_wrongly_is_an_error_although_no_device_is_seen(box: Box, roots: Roots) -> None:
    box.set(init=18)

    inventory = roots.probe().discover()

    assert (inventory.error, inventory.hardware) == ("Driver/library version mismatch", True)


def test_a_driver_that_lists_nothing_although_a_device_exists_is_an_error(box: Box, roots: Roots) -> None:
    (roots.dev / "nvidia0").touch()
    box.set(count=0)

    assert roots.probe().discover().error == "NVML lists no GPU"


def test_a_driver_that_hangs_is_given_up_on(box: Box, roots: Roots) -> None:
    box.hang("all")
    probe = NvmlProbe(sys_root=str(roots.sys), dev_root=str(roots.dev), discover_timeout_s=0.05)

    inventory = probe.discover()

    assert (inventory.error, inventory.hardware) == ("NVML gave no answer in 0.05 s", True)


# -- hardware ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "kind", "counts"),
    [
        ("0x10de", "0x030000", True), ("0x10de", "0x030200", True), ("0x10de", "0x020700", False),
        ("0x1002", "0x030000", False),
    ],
    ids=["a display device of NVIDIA", "one without a display", "a network card of NVIDIA", "one of another vendor"],
)  # fmt: skip
def test_a_display_device_of_nvidia_on_the_bus_is_hardware(roots: Roots, vendor: str, kind: str, counts: bool) -> None:
    roots.add_pci(vendor, kind)

    assert roots.hardware == counts


def test_a_device_node_is_hardware_and_an_empty_box_has_none(roots: Roots) -> None:
    assert not roots.hardware

    (roots.dev / "nvidiactl").touch()

    assert roots.hardware


# -- topology ---------------------------------------------------------------------------------------------------------


def test_without_a_word_on_topology_there_are_no_links(box: Box) -> None:
    box.set(**{"topology.0.1": None})

    assert [gpu.links for gpu in NvmlProbe().discover().gpus] == [None, None]


def test_gpus_below_one_switch_are_nearer_than_gpus_across_the_system(box: Box) -> None:
    third = box.add_card()
    box.set(**{"topology.0.1": 10, "topology.0.2": 50, "topology.1.2": 50})

    links = NvmlProbe().discover().gpus[0].links or {}

    assert links[box.uuid(1)] > links[third] > 0


def test_nvlink_is_nearer_than_anything_on_the_bus(box: Box) -> None:
    third = box.add_card()
    box.set(**{"topology.0.1": 0, "topology.0.2": 50, "topology.1.2": 50, "nvlink.0.2": 1})

    links = NvmlProbe().discover().gpus[0].links or {}

    assert links[third] > links[box.uuid(1)]


def test_links_are_the_same_from_both_sides(box: Box) -> None:
    box.set(**{"topology.0.1": 20, "nvlink.0.1": 1})
    one, other = NvmlProbe().discover().gpus

    assert (one.links or {})[other.uuid] == (other.links or {})[one.uuid]


# -- MIG --------------------------------------------------------------------------------------------------------------


def test_a_card_in_mig_mode_is_replaced_by_its_instances(box: Box) -> None:
    instances = [box.add_instance(0, 0), box.add_instance(0, 3)]

    gpus = NvmlProbe().discover().gpus

    assert [(gpu.uuid, gpu.mig) for gpu in gpus] == [(box.uuid(1), False), *((uuid, True) for uuid in instances)]


def test_instances_are_numbered_after_all_cards(box: Box) -> None:
    box.add_instance(0, 0)
    box.add_instance(0, 1)

    assert [gpu.index for gpu in NvmlProbe().discover().gpus] == [1, 2, 3]


def test_an_instance_has_its_own_memory(box: Box) -> None:
    box.add_instance(0, 0)

    assert NvmlProbe().discover().gpus[-1].total_mib == 4864


def test_a_card_in_mig_mode_without_instances_offers_nothing(box: Box) -> None:
    box.set(**{"gpu.0.mig": 1})

    assert [gpu.uuid for gpu in NvmlProbe().discover().gpus] == [box.uuid(1)]
