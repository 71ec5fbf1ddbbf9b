"""What only people look at: clocks and what slows them, limits, health, and why a field is a gap."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from gpudeck.engine.core.inputs import GpuReading
from gpudeck.engine.ports import Telemetry
from tests.fakes.nvml_double.box import Box
from tests.fakes.still_clock import StillClock
from tests.inside.adapters import Device, NvmlProbe, reasons_in_words

NO_PERMISSION, UNKNOWN = 4, 999
_CLOSER = ("nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksThrottleReasons")


def closer(device: Device) -> Telemetry:
    device.read()
    return device.look_closer()


def test_a_card_tells_its_clocks_limits_and_place(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.sm": 1695, "gpu.0.memclock": 7250, "gpu.0.throttle": 0x24, "gpu.0.fan": 40})

    assert closer(device) == Telemetry(
        at=100.0,
        sm_clock_mhz=1695,
        sm_clock_max_mhz=1740,
        memory_clock_mhz=7250,
        memory_clock_max_mhz=7251,
        throttle=("thermal", "power"),
        fan_percent=40,
        slowdown_c=98,
        power_limit_w=300.0,
        pci_bus_id="0000:3b:00.0",
    )


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, ()), (0x1, ()), (0x4, ("power",)), (0x8, ("hw slowdown",)), (0x48, ("hw thermal",)),
        (0x88, ("power brake",)), (0x60, ("hw thermal", "thermal")), (1 << 40, ()),
    ],
)  # fmt: skip
def test_what_keeps_clocks_down_is_told_in_words(bits: int, words: tuple[str, ...]) -> None:
    assert reasons_in_words(bits) == words


def test_a_field_tells_why_it_is_a_gap(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.util": None, "gpu.0.error.power": NO_PERMISSION, "gpu.0.error.sm": UNKNOWN})

    missing = closer(device).missing

    assert {name: missing[name] for name in ("util_percent", "power_w", "sm_clock_mhz", "fan_percent")} == {
        "util_percent": "not supported",
        "power_w": "no permission",
        "sm_clock_mhz": "Unknown Error",
        "fan_percent": "not supported",
    }


def test_a_field_that_is_told_again_is_no_gap_any_more(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.error.power": UNKNOWN})
    closer(device)
    box.set(**{"gpu.0.error.power": None})

    assert "power_w" not in closer(device).missing


def test_an_unknown_throttle_is_not_none_at_all(box: Box, device: Device) -> None:
    box.set(**{"gpu.0.throttle": None})

    assert closer(device).throttle is None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"ecc": 1}, ("1 uncorrected ECC error since the driver was loaded",)),
        ({"ecc": 3}, ("3 uncorrected ECC errors since the driver was loaded",)),
        ({"remap": 1}, ("memory rows wait for a reset to be remapped",)),
        ({"remap": 2}, ("remapping of memory rows failed",)),
        ({"ecc": None, "remap": None}, ()),
    ],
)
def test_what_error_correction_found_is_told(
    box: Box, device: Device, values: dict[str, object], told: tuple[str, ...]
) -> None:
    box.set(**{f"gpu.0.{key}": value for key, value in values.items()})

    assert closer(device).health == told


def test_limits_are_not_asked_with_every_reading(box: Box, device: Device) -> None:
    closer(device)
    box.record_calls()

    closer(device)

    assert not {"nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPciInfo_v3"} & set(
        box.calls()
    )


def test_a_power_limit_that_was_changed_is_seen_within_a_minute(box: Box, device: Device, clock: StillClock) -> None:
    closer(device)
    box.set(**{"gpu.0.limit": 200000})
    clock.now_s += 60.0

    assert closer(device).power_limit_w == 200.0


def test_a_lost_gpu_tells_nothing_and_is_not_asked(box: Box, device: Device) -> None:
    box.lose(0)
    device.read()
    box.record_calls()

    assert (device.look_closer(), box.calls()) == (Telemetry(at=100.0), [])


def test_a_gpu_lost_between_reading_and_looking_closer_is_lost_at_the_next_reading(box: Box, device: Device) -> None:
    device.read()
    box.lose(0)

    assert device.look_closer() == Telemetry(at=100.0)
    assert device.read().lost == "GPU is lost"


def test_details_that_all_fail_do_not_make_a_gpu_lost(box: Box, device: Device) -> None:
    box.set(**{f"gpu.0.error.{key}": UNKNOWN for key in ("sm", "memclock", "throttle", "fan", "slowdown", "limit")})
    closer(device)

    assert device.read().lost == ""


# -- only while somebody looks ----------------------------------------------------------------------------------------


class Watched:
    """A probe whose readings a test asks for one by one."""

    def __init__(self, box: Box, clock: StillClock) -> None:
        self.probe = NvmlProbe(clock_s=clock)
        self._arrived: queue.Queue[tuple[GpuReading, ...]] = queue.Queue()
        self.probe.start([box.uuid(0), box.uuid(1)], self._arrived.put, period_s=3600.0)
        self._arrived.get(timeout=10.0)

    def sample(self) -> None:
        self.probe.poke()
        self._arrived.get(timeout=10.0)


@pytest.fixture
def watched(box: Box, clock: StillClock) -> Iterator[Watched]:
    made = Watched(box, clock)
    yield made
    made.probe.stop()


def test_nothing_more_is_read_while_nobody_looks(box: Box, watched: Watched) -> None:
    box.record_calls()

    watched.sample()

    assert not set(_CLOSER) & set(box.calls())


def test_who_asks_gets_details_with_the_next_reading(box: Box, watched: Watched) -> None:
    assert watched.probe.telemetry(box.uuid(1)) is None

    watched.sample()

    told = watched.probe.telemetry(box.uuid(1))
    assert told is not None
    assert (told.sm_clock_mhz, told.pci_bus_id) == (210, "0000:3c:00.0")


def test_details_are_no_longer_read_when_nobody_has_asked_for_a_while(
    box: Box, clock: StillClock, watched: Watched
) -> None:
    watched.probe.telemetry(box.uuid(0))
    clock.now_s += 11.0
    box.record_calls()

    watched.sample()

    assert not set(_CLOSER) & set(box.calls())
