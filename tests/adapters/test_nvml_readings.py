"""What one GPU reads: each field for itself, gaps instead of zeros, and what becomes of a lost GPU."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import GpuReading, Process
from tests.fakes.nvml_double.box import Box
from tests.fakes.still_clock import StillClock
from tests.inside.adapters import Device, Nvml, owned

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, TIMEOUT = 3, 4, 9, 10
FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = 13, 15, 999


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may signal everybody; processes of others refuse only other users."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_busy_gpu_reads_what_the_driver_says(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.used": 20480, "gpu.0.util": 97, "gpu.0.temp": 71, "gpu.0.power": 287500})

    assert device.read() == GpuReading(
        uuid="GPU-double-0",
        at=100.0,
        total_mib=46068 - 612,
        used_mib=20480,
        util_percent=97,
        temperature_c=71,
        power_w=287.5,
    )


def test_memory_that_the_driver_keeps_for_itself_is_not_in_use_by_anybody(device: Device) -> None:
    assert device.read().used_mib == 4


def test_a_driver_without_the_second_memory_call_is_asked_by_the_first(box: Box, device: Device) -> None:
    box.set(**{"error.nvmlDeviceGetMemoryInfo_v2": FUNCTION_NOT_FOUND})

    reading = device.read()

    assert (reading.total_mib, reading.used_mib) == (46068, 612 + 4)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, TIMEOUT, UNKNOWN])
@pytest.mark.parametrize(
    ("key", "field"),
    [("util", "util_percent"), ("temp", "temperature_c"), ("power", "power_w"), ("memory", "used_mib")],
)
def test_a_field_that_fails_is_a_gap_and_takes_no_other_with_it(
    box: Box, device: Device, key: str, field: str, code: int
) -> None:
    box.set(**{f"gpu.0.error.{key}": code})

    reading = device.read()

    gaps = {name for name in ("util_percent", "temperature_c", "power_w", "used_mib") if getattr(reading, name) is None}
    assert (gaps, reading.lost) == ({field}, "")


def test_what_is_not_supported_is_not_asked_again(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.util": None})
    device.read()
    box.record_calls()

    device.read()

    assert "nvmlDeviceGetUtilizationRates" not in box.calls()


def test_what_was_only_refused_for_a_moment_is_asked_again(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.error.util": TIMEOUT})
    device.read()
    box.set(**{"gpu.0.error.util": None, "gpu.0.util": 55})

    assert device.read().util_percent == 55


@pytest.mark.parametrize("total", [None, 0])
def test_unified_memory_has_no_total(box: Box, device: Device, total: int | None) -> None:
    box.set(**{"gpu.0.total": total})

    reading = device.read()

    assert (reading.total_mib, reading.used_mib, reading.util_percent) == (None, None, 0)


# -- lost GPUs --------------------------------------------------------------------------------------------------------


def test_a_lost_gpu_gives_nvmls_words_and_no_numbers(box: Box, device: Device) -> None:
    box.lose(0)

    assert device.read() == GpuReading(uuid="GPU-double-0", at=100.0, lost="GPU is lost")


def test_a_gpu_that_fails_in_every_field_is_lost(box: Box, device: Device) -> None:
    box.set(**{f"gpu.0.error.{field}": UNKNOWN for field in ("memory", "util", "temp", "power")})
    box.set(**{f"gpu.0.error.{field}": UNKNOWN for field in ("compute", "graphics", "mps")})

    assert device.read().lost == "Unknown Error"


def test_a_gpu_that_the_driver_no_longer_lists_is_lost(box: Box, device: Device) -> None:
    device.read()
    box.set(**{"gpu.0.uuid": "GPU-another"})

    assert device.read().lost == "GPU is lost"


def test_a_lost_gpu_is_left_alone_until_its_retry_is_due(box: Box, device: Device) -> None:
    box.lose(0)
    device.read()
    box.find(0)
    box.record_calls()

    assert (device.read().lost, box.calls()) == ("GPU is lost", [])


def test_a_lost_gpu_that_came_back_is_found_at_the_retry(box: Box, device: Device, clock: StillClock) -> None:
    box.lose(0)
    device.read()
    box.find(0)
    clock.now_s += 5.0

    reading = device.read()

    assert (reading.lost, reading.used_mib) == ("", 4)


def test_retries_of_a_lost_gpu_grow_apart_up_to_five_minutes(box: Box, device: Device, clock: StillClock) -> None:
    box.lose(0)
    tried_at: list[float] = []
    device.read()
    for _ in range(1500):
        clock.now_s += 1.0
        box.record_calls() if not tried_at else None
        before = len(box.calls())
        device.read()
        if len(box.calls()) > before:
            tried_at.append(clock.now_s - 100.0)

    assert tried_at == [5, 15, 35, 75, 155, 315, 615, 915, 1215]


def test_a_driver_that_went_away_is_reached_again(box: Box, clock: StillClock) -> None:
    box.set(init=9)
    device = Device("GPU-double-0", Nvml(), clock)
    assert device.read().lost == "Driver Not Loaded"
    box.set(init=None)
    clock.now_s += 5.0

    assert device.read().lost == ""


def test_retries_begin_anew_when_a_gpu_is_lost_a_second_time(box: Box, device: Device, clock: StillClock) -> None:
    box.lose(0)
    device.read()
    clock.now_s += 5.0
    device.read()
    box.find(0)
    clock.now_s += 10.0
    device.read()
    box.lose(0)
    device.read()
    box.find(0)
    clock.now_s += 5.0

    assert device.read().lost == ""


def test_one_field_that_tells_of_a_lost_gpu_is_enough(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.error.util": GPU_IS_LOST})

    assert device.read() == GpuReading(uuid="GPU-double-0", at=100.0, lost="GPU is lost")


def test_a_gpu_that_came_back_is_not_asked_through_its_old_handle(box: Box, device: Device, clock: StillClock) -> None:
    box.lose(0)
    device.read()
    box.find(0)
    clock.now_s += 5.0
    box.record_calls()
    device.read()

    assert "nvmlDeviceGetHandleByUUID" in box.calls()


def test_a_driver_that_went_away_later_is_initialised_anew(box: Box, device: Device, clock: StillClock) -> None:
    device.read()
    box.set(**{"gpu.0.error.memory": DRIVER_NOT_LOADED})
    device.read()
    box.set(**{"gpu.0.error.memory": None})
    clock.now_s += 5.0
    box.record_calls()
    device.read()

    assert "nvmlInitWithFlags" in box.calls()


# -- processes --------------------------------------------------------------------------------------------------------


def test_a_process_is_told_with_its_memory_and_its_owner(box: Box, device: Device) -> None:
    box.processes(0, f"{os.getpid()} 1024 C")

    (process,) = device.read().processes

    assert (process.pid, process.used_mib, process.user) == (os.getpid(), 1024, pwd.getpwuid(os.getuid()).pw_name)
    assert (process.token, process.graphics, process.visible) == ("", False, True)


@pytest.mark.parametrize(("types", "graphics"), [("C", False), ("M", False), ("C+G", False), ("G", True)])
def test_only_a_process_that_does_nothing_but_draw_is_a_graphics_process(
    box: Box, device: Device, types: str, graphics: bool
) -> None:
    box.processes(0, f"{os.getpid()} 300 {types}")

    assert [process.graphics for process in device.read().processes] == [graphics]


def test_memory_that_the_driver_does_not_tell_is_unknown(box: Box, device: Device) -> None:
    box.processes(0, "1 - C")

    assert [process.used_mib for process in device.read().processes] == [None]


def test_a_pid_that_is_not_ours_to_see_is_not_visible(box: Box, device: Device) -> None:
    beyond_every_pid = 1 << 23
    box.processes(0, f"{beyond_every_pid} 500 C")

    (process,) = device.read().processes

    assert (process.user, process.visible) == ("", False)


def test_processes_of_another_gpu_are_not_listed(box: Box, device: Device) -> None:
    box.processes(1, "1 500 C")

    assert device.read().processes == ()


def test_a_list_that_outgrew_its_buffer_is_asked_for_again(box: Box, device: Device) -> None:
    box.processes(0, "1 500 C")
    box.set(**{"gpu.0.race": 3})

    assert [process.pid for process in device.read().processes] == [1]


def test_many_processes_are_all_listed(box: Box, device: Device) -> None:
    box.processes(0, *(f"{pid} 10 C" for pid in range(1, 61)))

    assert [process.pid for process in device.read().processes] == list(range(1, 61))


def test_the_last_list_stands_in_for_one_that_cannot_be_had(box: Box, device: Device) -> None:
    box.processes(0, "1 500 C")
    device.read()
    box.set(**{"gpu.0.error.compute": TIMEOUT})

    assert [process.pid for process in device.read().processes] == [1]


def test_an_older_driver_is_asked_for_the_older_list(box: Box, device: Device) -> None:
    box.processes(0, "1 500 C")
    box.set(**{"error.nvmlDeviceGetComputeRunningProcesses_v3": FUNCTION_NOT_FOUND})

    assert [process.pid for process in device.read().processes] == [1]


def test_a_process_hidden_by_the_kernel_is_visible_without_a_name(tmp_path: Path) -> None:
    with unprivileged():
        assert owned(Process(1, None), str(tmp_path)) == Process(1, None, user="", visible=True)


def test_an_owner_without_a_login_name_is_told_by_number(tmp_path: Path) -> None:
    (tmp_path / "77").mkdir()
    os.chown(tmp_path / "77", _unused_uid(), -1) if os.geteuid() == 0 else None
    uid = os.stat(tmp_path / "77").st_uid

    assert owned(Process(77, None), str(tmp_path)) == Process(77, None, user=_name_or_number(uid), visible=True)


def _unused_uid() -> int:
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in range(54321, 60000) if uid not in taken)


def _name_or_number(uid: int) -> str:
    return next((entry.pw_name for entry in pwd.getpwall() if entry.pw_uid == uid), str(uid))
