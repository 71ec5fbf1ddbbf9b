"""`gpudeck gpus`: the table and its JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from gpudeck.engine.core.inputs import GpuReading, Process
from gpudeck.engine.ports import GpuInfo, Inventory
from tests.fakes.gpus import FakeProbe
from tests.inside.adapters import report, sample_once

CARD = GpuInfo(uuid="GPU-5f2a", index=3, name="NVIDIA A40", total_mib=46068)
BUSY = GpuReading(
    uuid="GPU-5f2a",
    at=1.0,
    total_mib=45456,
    used_mib=31744,
    util_percent=97,
    temperature_c=71,
    power_w=287.5,
    processes=(Process(pid=4711, used_mib=31000, user="alice"),),
)


def table(reading: GpuReading | None = BUSY, card: GpuInfo = CARD, driver: str = "") -> list[str]:
    inventory = Inventory(gpus=(card,), driver=driver, hardware=True)
    return report(inventory, [reading] if reading else [], as_json=False).splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"\s{2,}", line.strip())]


def as_json(reading: GpuReading | None = BUSY) -> dict[str, Any]:
    text = report(Inventory(gpus=(CARD,)), [reading] if reading else [], as_json=True)
    return json.loads(text)["gpus"][0]


# -- table ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (BUSY, ["31.0 / 44.4 GiB", "97 %", "71 °C", "288 W", "alice 4711 30.3 GiB"]),
        (GpuReading(uuid="GPU-5f2a", at=1.0), ["n/a", "n/a", "n/a", "n/a", "-"]),
        (None, ["45.0 GiB", "no answer"]),
    ],
    ids=["all is known", "what is not known is not zero", "it was not read"],
)
def test_a_gpu_is_one_row_with_what_is_known_of_it(reading: GpuReading | None, said: list[str]) -> None:
    assert cells(table(reading)[1]) == ["3", "NVIDIA A40", *said, "GPU-5f2a"]


def test_columns_are_headed() -> None:
    assert cells(table()[0]) == ["GPU", "name", "memory", "util", "temp", "power", "processes", "uuid"]


def test_a_lost_gpu_is_shown_as_lost_and_says_why() -> None:
    _, row, why = table(GpuReading(uuid="GPU-5f2a", at=1.0, lost="GPU is lost"))

    assert (cells(row)[3], why) == ("LOST", "GPU 3 cannot be used: GPU is lost")


def test_a_simulated_gpu_is_marked_in_its_row_and_below() -> None:
    _, row, last = table(card=replace(CARD, simulated=True))

    assert (cells(row)[1], last) == ("SIM NVIDIA A40", "simulated GPUs: nothing here is real")


@pytest.mark.parametrize(
    ("process", "shown"),
    [
        (Process(pid=7, used_mib=None, user="bob"), "bob 7 n/a"),
        (Process(pid=7, used_mib=1024, visible=False), "outside 7 1.0 GiB"),
        (Process(pid=7, used_mib=1024), "? 7 1.0 GiB"),
        (Process(pid=7, used_mib=1024, user="root", graphics=True), "root 7 1.0 GiB (graphics)"),
    ],
)
def test_a_process_is_shown_with_what_is_known_of_it(process: Process, shown: str) -> None:
    assert cells(table(replace(BUSY, processes=(process,)))[1])[6] == shown


def test_processes_that_only_draw_come_last() -> None:
    processes = (Process(1, 10, user="xorg", graphics=True), Process(2, 10, user="alice"))

    assert cells(table(replace(BUSY, processes=processes))[1])[6].startswith("alice 2")


def test_the_driver_version_closes_the_table() -> None:
    assert table(driver="560.35.03")[-1] == "driver 560.35.03"


def test_names_from_outside_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in "".join(table(card=replace(CARD, name="A40\x1b[2J")))


def test_a_box_without_gpus_says_so() -> None:
    assert report(Inventory(gpus=()), [], as_json=False) == "no NVIDIA GPU here"


def test_gpus_that_could_not_be_listed_are_named_below() -> None:
    text = report(Inventory(gpus=(CARD,)), [BUSY], as_json=False, problems=["GPU 1: GPU is lost"])

    assert text.splitlines()[-1] == "GPU 1: GPU is lost"


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_json_has_the_same_numbers() -> None:
    gpu = as_json()

    assert (gpu["index"], gpu["used_mib"], gpu["total_mib"], gpu["util_percent"]) == (3, 31744, 45456, 97)
    assert gpu["processes"] == [{"pid": 4711, "user": "alice", "used_mib": 31000, "graphics": False, "visible": True}]


def test_json_has_null_for_what_is_not_known() -> None:
    gpu = as_json(GpuReading(uuid="GPU-5f2a", at=1.0))

    assert (gpu["used_mib"], gpu["util_percent"], gpu["temperature_c"], gpu["power_w"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("reading", "lost"),
    [(BUSY, ""), (GpuReading("GPU-5f2a", 1.0, lost="GPU is lost"), "GPU is lost"), (None, "no answer")],
)
def test_json_tells_why_a_gpu_cannot_be_used(reading: GpuReading | None, lost: str) -> None:
    assert as_json(reading)["lost"] == lost


# -- reading once -----------------------------------------------------------------------------------------------------


def test_one_reading_is_taken_and_the_probe_left_stopped() -> None:
    probe = FakeProbe(2)

    readings = sample_once(probe, ["GPU-fake-1"])

    assert ([reading.uuid for reading in readings], probe.running) == (["GPU-fake-1"], False)


def test_a_driver_that_hangs_gives_no_readings() -> None:
    probe = FakeProbe(1)
    probe.hanging = True

    assert sample_once(probe, ["GPU-fake-0"], timeout_s=0.01) == ()
