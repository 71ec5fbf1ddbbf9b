"""Simulated GPUs: their readings follow who runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpudeck.engine.core.events import AttemptStarting
from gpudeck.engine.core.inputs import GpuReading
from gpudeck.engine.core.spec import Resources, TaskSpec, Work
from tests.inside.adapters import TOTAL_MIB, SimulatedProbe, mib_at, told_use


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def probe(clock: Clock) -> SimulatedProbe:
    return SimulatedProbe(2, clock_s=clock)


@pytest.fixture
def read(probe: SimulatedProbe) -> Callable[[], GpuReading]:
    return lambda: probe.read(["SIM-0"])[0]


def test_simulated_gpus_are_marked(probe: SimulatedProbe) -> None:
    gpus = probe.discover().gpus

    assert [(gpu.uuid, gpu.index, gpu.simulated) for gpu in gpus] == [("SIM-0", 0, True), ("SIM-1", 1, True)]


def test_a_gpu_with_a_task_is_busy(probe: SimulatedProbe, read: Callable[[], GpuReading]) -> None:
    probe.occupy("SIM-0", "token", 30000)

    assert (read().util_percent or 0) > 70


def test_memory_in_use_is_what_its_tasks_take(probe: SimulatedProbe, read: Callable[[], GpuReading]) -> None:
    idle = read().used_mib or 0
    probe.occupy("SIM-0", "one", 30000)
    probe.occupy("SIM-0", "two", 10000)

    assert read().used_mib == idle + 40000


def test_memory_in_use_is_never_more_than_the_card_has(probe: SimulatedProbe, read: Callable[[], GpuReading]) -> None:
    probe.occupy("SIM-0", "token", 10 * TOTAL_MIB)

    assert read().used_mib == TOTAL_MIB


def test_all_memory_in_use_is_explained_by_processes(probe: SimulatedProbe, read: Callable[[], GpuReading]) -> None:
    probe.occupy("SIM-0", "token", 30000)

    assert [process.used_mib for process in read().processes] == [30000]


def test_what_uses_a_gpu_belongs_to_its_attempt_and_has_no_pid_of_this_box(
    probe: SimulatedProbe, read: Callable[[], GpuReading]
) -> None:
    probe.occupy("SIM-0", "token", 30000)

    assert [(process.token, process.visible) for process in read().processes] == [("token", False)]


def test_a_gpu_that_nobody_uses_any_more_is_idle(probe: SimulatedProbe, read: Callable[[], GpuReading]) -> None:
    probe.occupy("SIM-0", "token")
    probe.release("token")

    assert (read().util_percent, read().processes) == (0, ())


def test_a_released_attempt_leaves_all_its_gpus_and_no_other_attempts(probe: SimulatedProbe) -> None:
    for uuid in ("SIM-0", "SIM-1"):
        probe.occupy(uuid, "gang", 1000)
    probe.occupy("SIM-1", "other", 2000)

    probe.release("gang")

    processes = [reading.processes for reading in probe.read(["SIM-0", "SIM-1"])]
    assert [[process.used_mib for process in one] for one in processes] == [[], [2000]]


def test_a_busy_gpu_grows_warm(probe: SimulatedProbe, read: Callable[[], GpuReading], clock: Clock) -> None:
    probe.occupy("SIM-0", "token")
    cold = read().temperature_c or 0
    clock.now_s += 120

    assert (read().temperature_c or 0) > cold + 20


def test_the_same_task_at_the_same_time_reads_the_same(clock: Clock) -> None:
    one, other = SimulatedProbe(1, clock_s=clock), SimulatedProbe(1, clock_s=clock)
    for probe in (one, other):
        probe.occupy("SIM-0", "token")

    assert one.read(["SIM-0"]) == other.read(["SIM-0"])


@pytest.mark.parametrize(
    ("said", "mib"),
    [
        ("3000", (3000, 3000, 3000)),
        ("2048,20480@5", (2048, 2048, 20480)),
        (" 20480 @ 5.5, 2048 ", (2048, 2048, 20480)),
        ("700@2", (0, 700, 700)),
    ],
)
def test_an_attempt_uses_as_much_memory_as_its_task_says(said: str, mib: tuple[int, ...]) -> None:
    use = told_use({"GPUDECK_SIM_MIB": said}, 100.0)
    assert use is not None
    assert tuple(mib_at(use, 100.0 + after) for after in (0, 3, 60)) == mib


@pytest.mark.parametrize("said", [None, "", "much", "10,", "-5", "10@", "1@2@3"])
def test_what_cannot_be_understood_says_nothing(said: str | None) -> None:
    assert told_use({"GPUDECK_SIM_MIB": said}, 0.0) is None


def starting(token: str) -> AttemptStarting:
    return AttemptStarting("a", 1, token, "fp", ("SIM-0",), 0, 0, 50.0, 0.0)


def test_the_memory_of_an_attempt_follows_its_ramp(
    probe: SimulatedProbe, read: Callable[[], GpuReading], clock: Clock
) -> None:
    spec = TaskSpec("a", "a", 0, Work("true", (("GPUDECK_SIM_MIB", "1000,9000@10"),)), "fp")
    probe.follow([starting("token")], lambda _: spec)
    early = [process.used_mib for process in read().processes]
    clock.now_s += 10
    assert (early, [process.used_mib for process in read().processes]) == ([1000], [9000])


def test_tasks_whose_memory_is_to_be_learned_use_the_same_each_time(
    probe: SimulatedProbe, read: Callable[[], GpuReading]
) -> None:
    spec = TaskSpec("a", "a", 0, Work("true"), "fp", Resources(gpu_memory_mib="auto"))
    probe.follow([starting("one"), starting("other")], lambda _: spec)
    one, other = (process.used_mib for process in read().processes)
    assert one == other
