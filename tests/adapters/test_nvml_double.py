"""The double as a library, asked as other monitors ask NVML. Needs a C compiler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import double


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with double("library", tmp_path, cards=2) as box:
        pynvml.nvmlInit()
        yield box
        pynvml.nvmlShutdown()


def card(index: int) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def test_each_change_is_seen_at_the_next_call_however_fast_they_follow(box: Box) -> None:
    handle, seen = card(1), []

    for celsius in range(10, 90):
        box.set(**{"gpu.1.temp": celsius})
        seen.append(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))

    assert seen == list(range(10, 90))


def test_processes_come_in_the_order_of_the_file(box: Box) -> None:
    pids = [3000, 20, 100, 1]
    box.processes(0, *(f"{pid} 5 C" for pid in pids))

    assert [each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(card(0))] == pids


def test_an_instance_is_found_by_its_uuid_and_says_what_it_is(box: Box) -> None:
    uuid = box.add_instance(1, 3)

    instance = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    assert pynvml.nvmlDeviceIsMigDeviceHandle(instance).value == 1
    assert pynvml.nvmlDeviceIsMigDeviceHandle(card(1)).value == 0


def test_a_card_that_is_not_counted_is_not_found(box: Box) -> None:
    uuid = box.uuid(1)
    box.set(count=1)

    with pytest.raises(pynvml.NVMLError_NotFound):  # pyright: ignore[reportAttributeAccessIssue]
        pynvml.nvmlDeviceGetHandleByUUID(uuid)


def test_what_other_monitors_show_is_answered(box: Box) -> None:
    handle = card(0)

    assert pynvml.nvmlSystemGetCudaDriverVersion() == 12060
    assert pynvml.nvmlDeviceGetPowerManagementLimit(handle) == 300_000
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 8
    assert pynvml.nvmlDeviceGetEncoderUtilization(handle) == [0, 167_000]
    assert pynvml.nvmlDeviceGetDecoderUtilization(handle) == [0, 167_000]
