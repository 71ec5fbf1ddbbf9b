"""The sampling thread: it hangs alone, and nothing ever waits for it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudeck.engine.core.inputs import GpuReading
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import outside
from tests.inside.adapters import NvmlProbe

_LONG_S = 3600.0
_PATIENCE_S = 10.0
_BLINK_S = 0.05


class Arrivals:
    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[tuple[GpuReading, ...], threading.Thread]] = queue.Queue()

    def put(self, readings: tuple[GpuReading, ...]) -> None:
        self._queue.put((readings, threading.current_thread()))

    def next(self) -> tuple[GpuReading, ...]:
        return self._queue.get(timeout=_PATIENCE_S)[0]

    def next_thread(self) -> threading.Thread:
        return self._queue.get(timeout=_PATIENCE_S)[1]

    def nothing_for(self, seconds: float) -> bool:
        try:
            self._queue.get(timeout=seconds)
        except queue.Empty:
            return True
        return False


@pytest.fixture
def probe() -> Iterator[NvmlProbe]:
    made = NvmlProbe()
    yield made
    made.stop()


@pytest.fixture
def arrivals() -> Arrivals:
    return Arrivals()


def test_readings_come_from_a_daemon_thread(box: Box, probe: NvmlProbe, arrivals: Arrivals) -> None:
    probe.start([box.uuid(0)], arrivals.put, period_s=_LONG_S)

    assert arrivals.next_thread().daemon


def test_readings_follow_the_box_while_it_changes(box: Box, probe: NvmlProbe, arrivals: Arrivals) -> None:
    probe.start([box.uuid(0)], arrivals.put, period_s=0.01)
    arrivals.next()
    box.set(**{"gpu.0.util": 42})

    assert _until(arrivals, lambda reading: reading.util_percent == 42)


def test_a_lost_gpu_does_not_hide_the_others(box: Box, probe: NvmlProbe, arrivals: Arrivals) -> None:
    box.lose(0)
    probe.start([box.uuid(0), box.uuid(1)], arrivals.put, period_s=_LONG_S)

    assert [reading.lost for reading in arrivals.next()] == ["GPU is lost", ""]


def test_a_driver_that_cannot_be_reached_gives_its_words_for_every_gpu(
    box: Box, probe: NvmlProbe, arrivals: Arrivals
) -> None:
    box.set(init=18)
    probe.start([box.uuid(0), box.uuid(1)], arrivals.put, period_s=_LONG_S)

    assert {reading.lost for reading in arrivals.next()} == {"Driver/library version mismatch"}


def test_a_hung_call_delivers_nothing_until_it_returns(box: Box, probe: NvmlProbe, arrivals: Arrivals) -> None:
    box.hang("nvmlDeviceGetUtilizationRates")
    probe.start([box.uuid(0)], arrivals.put, period_s=0.01)
    assert arrivals.nothing_for(_BLINK_S)

    box.release()

    assert arrivals.next()[0].lost == ""


def test_the_late_result_of_a_hung_call_is_dropped_after_stop(box: Box, probe: NvmlProbe, arrivals: Arrivals) -> None:
    before = set(threading.enumerate())
    box.hang("nvmlDeviceGetUtilizationRates")
    probe.start([box.uuid(0)], arrivals.put, period_s=_LONG_S)
    (sampler,) = set(threading.enumerate()) - before
    probe.stop()

    box.release()
    sampler.join(_PATIENCE_S)

    assert arrivals.nothing_for(0)


def test_the_thread_ends_when_its_hung_call_returns_after_stop(box: Box, probe: NvmlProbe) -> None:
    before = set(threading.enumerate())
    box.hang("all")
    probe.start([box.uuid(0)], print, period_s=_LONG_S)
    (sampler,) = set(threading.enumerate()) - before
    probe.stop()
    hung = sampler.is_alive()

    box.release()
    sampler.join(_PATIENCE_S)

    assert (hung, sampler.is_alive()) == (True, False)


def test_a_new_start_samples_although_an_old_call_still_hangs(box: Box, probe: NvmlProbe, arrivals: Arrivals) -> None:
    box.hang_card(0)
    probe.start([box.uuid(0)], arrivals.put, period_s=_LONG_S)
    probe.stop()

    probe.start([box.uuid(1)], arrivals.put, period_s=_LONG_S)

    assert [reading.uuid for reading in arrivals.next()] == [box.uuid(1)]


def test_the_sink_may_stop_the_sampling(box: Box, probe: NvmlProbe) -> None:
    stopped = threading.Event()

    def sink(_readings: tuple[GpuReading, ...]) -> None:
        probe.stop()
        stopped.set()

    probe.start([box.uuid(0)], sink, period_s=0.001)

    assert stopped.wait(_PATIENCE_S)


# -- pynvml on the library, in a process of its own -------------------------------------------------------------------

_HANGS_AND_EXITS = """
import sys
from gpudeck.engine.adapters.nvml.probe import NvmlProbe
probe = NvmlProbe(discover_timeout_s=0.2)
print(probe.discover().error)
probe.start(["GPU-double-0"], print, period_s=1.0)
probe.stop()
"""

_READS_ONCE = """
from gpudeck.engine.adapters.nvml.probe import NvmlProbe
from gpudeck.cli.commands.gpus import report
from gpudeck.engine.sampler import sample_once
probe = NvmlProbe()
inventory = probe.discover()
print(report(inventory, sample_once(probe, [gpu.uuid for gpu in inventory.gpus]), as_json=False))
"""


def _run(code: str, box: Box) -> str:
    prelude, environment = outside(box)
    done = subprocess.run(
        [sys.executable, "-c", prelude + code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def test_a_driver_that_hangs_for_ever_does_not_hold_up_the_end_of_the_program(tmp_path: Path) -> None:
    box = Box(tmp_path / "box.txt", cards=1)
    box.hang("all")

    assert _run(_HANGS_AND_EXITS, box) == "NVML gave no answer in 0.2 s\n"


def test_a_program_of_its_own_reads_the_gpus_through_pynvml(tmp_path: Path) -> None:
    box = Box(tmp_path / "box.txt", cards=1)
    box.processes(0, f"{os.getpid()} 2048 C")

    assert f"{os.getpid()} 2.0 GiB" in _run(_READS_ONCE, box)


def test_pynvml_is_not_imported_before_it_is_used() -> None:
    code = "import sys, gpudeck.engine.adapters.nvml.probe; print('pynvml' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def _until(arrivals: Arrivals, wanted: Callable[[GpuReading], bool]) -> bool:
    """Waits for a reading of the first GPU that fits."""
    while not wanted(arrivals.next()[0]):
        pass
    return True
