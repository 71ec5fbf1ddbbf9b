"""ports.GpuProbe: the same promises from NVML (a library and a Python double), simulated GPUs and the tests' fake."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from gpudeck.engine.core.inputs import GpuReading
from gpudeck.engine.ports import GpuProbe
from tests.fakes.gpus import FakeProbe
from tests.fakes.nvml_double.build import KINDS, double
from tests.inside.contract import NvmlProbe, SimulatedProbe

_LONG_S = 3600.0
_PATIENCE_S = 10.0


@dataclass
class Sampled:
    """Collects what a probe delivers."""

    probe: GpuProbe
    arrived: queue.Queue[tuple[GpuReading, ...]] = field(default_factory=queue.Queue)

    @property
    def uuids(self) -> list[str]:
        return [gpu.uuid for gpu in self.probe.discover().gpus]

    def start(self, uuids: list[str], period_s: float = _LONG_S) -> None:
        self.probe.start(uuids, self.arrived.put, period_s=period_s)

    def next(self) -> tuple[GpuReading, ...]:
        return self.arrived.get(timeout=_PATIENCE_S)


@pytest.fixture(params=[*KINDS, "simulated", "fake"])
def sampled(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[Sampled]:
    if request.param in KINDS:
        with double(request.param, tmp_path, cards=3):
            yield from _stopped_after(NvmlProbe())
    else:
        yield from _stopped_after(SimulatedProbe(3) if request.param == "simulated" else FakeProbe(3))


def _stopped_after(probe: GpuProbe) -> Iterator[Sampled]:
    yield Sampled(probe)
    probe.stop()


def test_gpus_are_listed_with_distinct_uuids_and_indices_from_zero(sampled: Sampled) -> None:
    gpus = sampled.probe.discover().gpus

    assert [gpu.index for gpu in gpus] == [0, 1, 2]
    assert len({gpu.uuid for gpu in gpus}) == 3


def test_a_box_that_answers_has_no_error(sampled: Sampled) -> None:
    assert sampled.probe.discover().error == ""


def test_listing_twice_gives_the_same(sampled: Sampled) -> None:
    assert sampled.probe.discover() == sampled.probe.discover()


def test_the_first_reading_arrives_without_waiting_for_a_period(sampled: Sampled) -> None:
    sampled.start(sampled.uuids)

    assert [reading.uuid for reading in sampled.next()] == sampled.uuids


def test_only_the_gpus_asked_for_are_read_and_in_that_order(sampled: Sampled) -> None:
    first, _, third = sampled.uuids

    sampled.start([third, first])

    assert [reading.uuid for reading in sampled.next()] == [third, first]


def test_a_poke_brings_a_reading_before_the_period_ends(sampled: Sampled) -> None:
    sampled.start(sampled.uuids)
    before = sampled.next()

    sampled.probe.poke()

    assert sampled.next()[0].at >= before[0].at


def test_an_idle_gpu_reads_numbers_and_no_processes(sampled: Sampled) -> None:
    sampled.start(sampled.uuids[:1])

    (reading,) = sampled.next()

    assert reading.lost == ""
    assert reading.util_percent == 0
    assert reading.processes == ()


def test_memory_in_use_never_exceeds_what_there_is(sampled: Sampled) -> None:
    sampled.start(sampled.uuids)

    assert all(0 <= (reading.used_mib or 0) <= (reading.total_mib or 0) for reading in sampled.next())


def test_nothing_arrives_after_stop(sampled: Sampled) -> None:
    sampled.start(sampled.uuids)
    sampled.next()
    sampled.probe.stop()

    sampled.probe.poke()

    assert sampled.arrived.empty()


def test_sampling_can_be_started_again_after_stop(sampled: Sampled) -> None:
    sampled.start(sampled.uuids)
    sampled.next()
    sampled.probe.stop()

    sampled.start(sampled.uuids[1:2])

    assert [reading.uuid for reading in sampled.next()] == sampled.uuids[1:2]


def test_stop_and_poke_before_start_do_nothing(sampled: Sampled) -> None:
    sampled.probe.poke()
    sampled.probe.stop()

    assert sampled.arrived.empty()
