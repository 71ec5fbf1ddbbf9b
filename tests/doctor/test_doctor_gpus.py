"""A line for each GPU, and for what all of them have in common, with a driver that tells of trouble."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpudeck.engine.core.spec import DeckSettings
from gpudeck.engine.ports import Inventory
from tests.fakes.nvml_double.box import Box
from tests.inside.doctor import Ended, Finding, Gpus, NvmlProbe, check_cards, gpu_checks, is_idle, look_at, read_each


def cards(settings: DeckSettings | None = None) -> dict[str, Finding]:
    settings = settings or DeckSettings()
    gpus = look_at(settings, os.environ)
    return {each.check: each for each in check_cards(gpus, gpus.inventory.gpus, settings)}


def driver(gpus: Gpus) -> Mapping[str, Finding]:
    return {each.check: each for each in gpu_checks.check_driver(gpus)}


def test_idle_cards_of_a_sound_driver_are_all_right(box: Box):
    gpus = look_at(DeckSettings(), os.environ)
    assert driver(gpus)["driver"].text == "NVIDIA driver 560.35.03, NVML answers"
    found = cards()
    assert [each.level for each in found.values()] == ["ok", "ok"]
    assert found["GPU 0"].text.startswith("NVIDIA A40, answers, 31 °C")
    assert all(is_idle(gpus, gpu) for gpu in gpus.inventory.gpus)
    assert [each.text for each in gpu_checks.check_models(gpus.inventory.gpus)] == ["2 equal GPUs"]
    assert [each.text for each in gpu_checks.check_persistence(gpus)] == ["on"]
    assert [each.text for each in gpu_checks.check_mig(gpus)] == ["off"]


def test_a_card_that_hangs_hides_no_other(box: Box):
    box.hang_card(1)
    readings, telemetry = read_each([box.uuid(0), box.uuid(1)], NvmlProbe, limit_s=0.5)
    box.release()
    assert list(readings) == list(telemetry) == [box.uuid(0)]


def test_a_card_that_gives_no_reading_fails_and_is_not_idle(box: Box):
    gpus = look_at(DeckSettings(), os.environ)
    gpu = gpus.inventory.gpus[1]
    silent = Gpus(gpus.inventory, readings={gpus.inventory.gpus[0].uuid: gpus.readings[gpus.inventory.gpus[0].uuid]})
    found = list(check_cards(silent, gpus.inventory.gpus, DeckSettings()))
    assert [each.level for each in found] == ["ok", "fail"]
    assert found[1].text == "gives no answer in 5 s"
    assert not is_idle(silent, gpu)


def test_a_lost_card_is_a_failure_of_its_own(box: Box):
    box.lose(1)
    gpus = look_at(DeckSettings(), os.environ)
    told = [each for each in gpu_checks.check_driver(gpus) if each.level == "fail"]
    assert [each.text.startswith("GPU 1: ") for each in told] == [True]
    assert [gpu.index for gpu in gpus.inventory.gpus] == [0]


def test_memory_errors_and_heat_are_warned_of_and_a_failed_remapping_fails(box: Box):
    box.set(**{"gpu.0.ecc": 2, "gpu.0.throttle": 0x40, "gpu.1.remap": 2})
    found = cards()
    assert found["GPU 0"].level == "warn"
    assert "2 uncorrected ECC errors" in found["GPU 0"].text
    assert "throttled: hw thermal" in found["GPU 0"].text
    assert found["GPU 1"].level == "fail"
    assert "remapping of memory rows failed" in found["GPU 1"].text


def test_the_power_limit_of_a_busy_card_is_no_trouble(box: Box):
    box.set(**{"gpu.0.throttle": 0x04})
    assert cards()["GPU 0"].level == "ok"


def test_who_else_computes_on_a_card_is_named_with_what_tasks_do_about_it(box: Box):
    box.processes(0, f"{os.getpid()} 5000 C")
    found = cards()["GPU 0"]
    assert found.level == "warn"
    assert f"(pid {os.getpid()}, 4.9 GiB)" in found.text
    assert found.remedy == 'foreign = "avoid": tasks wait until they are gone'
    assert "tasks start there" in cards(DeckSettings(foreign="ignore"))["GPU 0"].remedy
    gpus = look_at(DeckSettings(), os.environ)
    assert [is_idle(gpus, gpu) for gpu in gpus.inventory.gpus] == [False, True]


def test_what_only_draws_on_a_card_is_nobody(box: Box):
    box.processes(0, f"{os.getpid()} 500 G")
    assert cards()["GPU 0"].level == "ok"


def test_a_compute_mode_that_keeps_tasks_out_fails(box: Box):
    box.set(**{"gpu.0.mode": 2, "gpu.1.mode": 3})
    assert [each.level for each in cards().values()] == ["fail", "ok"]
    assert [each.level for each in cards(DeckSettings(slots_per_gpu=2)).values()] == ["fail", "fail"]


def test_mixed_models_a_driver_that_unloads_and_mig_without_instances_are_warned_of(box: Box):
    box.set(**{"gpu.1.name": "NVIDIA A100", "gpu.0.persistence": 0})
    gpus = look_at(DeckSettings(), os.environ)
    (models,) = gpu_checks.check_models(gpus.inventory.gpus)
    assert (models.level, models.text) == ("warn", "mixed: 0 NVIDIA A40 45 GiB, 1 NVIDIA A100 45 GiB")
    (persistence,) = gpu_checks.check_persistence(gpus)
    assert (persistence.level, persistence.text[:12]) == ("warn", "off on GPU 0")
    box.set(**{"gpu.1.mig": 1})
    (mig,) = gpu_checks.check_mig(look_at(DeckSettings(), os.environ))
    assert mig.level == "warn"
    assert mig.text.startswith("GPU 1 is in MIG mode")
    box.add_instance(1, 0)
    (mig,) = gpu_checks.check_mig(look_at(DeckSettings(), os.environ))
    assert (mig.level, mig.text[:20]) == ("ok", "1 instance on GPU 1;")


def test_a_driver_that_does_not_answer_fails_with_its_words_and_what_to_do():
    gpus = Gpus(Inventory((), error="Driver/library version mismatch", hardware=True), smi=Ended(None, "", ""))
    found = driver(gpus)
    assert found["driver"].level == "fail"
    assert "Driver/library version mismatch" in found["driver"].text
    assert "reboot" in found["driver"].remedy
    assert found["nvidia-smi"].level == "fail"
    assert "no end in time" in found["nvidia-smi"].text


def test_a_box_without_gpus_is_a_warning_only_where_tasks_want_some():
    gpus = Gpus(Inventory(()))
    assert [each.level for each in gpu_checks.check_driver(gpus)] == ["ok", "ok"]
    assert gpu_checks.check_detection(gpus, (), "", gpu_tasks=False).level == "ok"
    assert gpu_checks.check_detection(gpus, (), "", gpu_tasks=True).level == "warn"
    assert gpu_checks.check_detection(gpus, (), "no NVIDIA GPU here", gpu_tasks=True).level == "fail"
