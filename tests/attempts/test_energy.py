"""Energy of attempts: from the driver's counter, else from the power that it tells; shared cards are divided."""

from __future__ import annotations

import pytest

from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.inputs import GpuReading
from gpudeck.engine.core.phases import Attempt
from tests.inside.attempts import Usage


def attempt(token: str, *gpus: str, at: float = 0.0) -> Attempt:
    return Attempt(1, token, "fp", gpus, 0, 0, at, 0.0)


def card(uuid: str, *holders: Attempt) -> dict[str, Gpu]:
    return {uuid: Gpu(uuid, 0, 0, holders={one.token: one for one in holders})}


def reading(at: float, uuid: str = "A", **more: float) -> GpuReading:
    return GpuReading(uuid, at, util_percent=50, **more)  # pyright: ignore[reportArgumentType]


def test_the_counters_difference_is_what_an_attempt_used() -> None:
    usage, gpus = Usage(), card("A", attempt("a", "A"))
    for at, joules in ((0.0, 5_000.0), (10.0, 8_600.0)):
        usage.take([reading(at, energy_j=joules, power_w=99.0)], gpus)
    used = usage.finish("a")
    assert (used.mean_power_w(1), used.energy_wh(1, 10.0)) == (360.0, 1.0)


def test_without_a_counter_power_is_summed_over_the_readings() -> None:
    usage, gpus = Usage(), card("A", attempt("a", "A"))
    for at, watts in ((0.0, 100.0), (1.0, 300.0), (2.0, 300.0)):
        usage.take([reading(at, power_w=watts)], gpus)
    assert usage.finish("a").mean_power_w(1) == pytest.approx(250.0)


def test_power_is_not_carried_over_a_long_time_without_readings() -> None:
    usage, gpus = Usage(), card("A", attempt("a", "A"))
    for at, watts in ((0.0, 100.0), (1.0, 100.0), (1000.0, 900.0), (1001.0, 900.0)):
        usage.take([reading(at, power_w=watts)], gpus)
    assert usage.finish("a").mean_power_w(1) == pytest.approx(500.0)


def test_holders_share_a_card_equally_while_they_share_it() -> None:
    usage, first, second = Usage(), attempt("a", "A"), attempt("b", "A", at=10.0)
    usage.take([reading(0.0, energy_j=0.0)], card("A", first))
    usage.take([reading(10.0, energy_j=1_000.0)], card("A", first))
    usage.take([reading(20.0, energy_j=3_000.0)], card("A", first, second))
    assert usage.finish("a").energy_wh(1, 20.0) == pytest.approx(2_000 / 3600)
    assert usage.finish("b").energy_wh(1, 10.0) == pytest.approx(1_000 / 3600)


def test_what_came_before_an_attempt_began_does_not_count() -> None:
    usage = Usage()
    usage.take([reading(0.0, energy_j=0.0)], {})
    usage.take([reading(0.0, energy_j=0.0)], card("A"))
    usage.take([reading(10.0, energy_j=1_000.0)], card("A", attempt("a", "A", at=8.0)))
    assert usage.finish("a").energy_wh(1, 2.0) == pytest.approx(200 / 3600)


def test_a_gang_is_the_sum_of_its_cards_and_unknown_where_one_does_not_tell() -> None:
    usage, gang = Usage(), attempt("a", "A", "B")
    gpus = {**card("A", gang), **card("B", gang)}
    for at in (0.0, 1.0):
        usage.take([reading(at, "A", power_w=100.0), reading(at, "B", power_w=200.0)], gpus)
    assert usage.finish("a").mean_power_w(2) == pytest.approx(300.0)

    usage = Usage()
    for at in (0.0, 1.0):
        usage.take([reading(at, "A", power_w=100.0), reading(at, "B")], gpus)
    assert usage.finish("a").energy_wh(2, 1.0) is None


def test_a_card_that_tells_nothing_has_no_energy() -> None:
    usage, gpus = Usage(), card("A", attempt("a", "A"))
    for at in (0.0, 1.0):
        usage.take([reading(at)], gpus)
    assert usage.finish("a").energy_wh(1, 1.0) is None


def test_a_counter_that_began_anew_is_not_negative_energy() -> None:
    usage, gpus = Usage(), card("A", attempt("a", "A"))
    for at, joules in ((0.0, 9_000.0), (1.0, 100.0), (2.0, 500.0)):
        usage.take([reading(at, energy_j=joules)], gpus)
    assert usage.finish("a").mean_power_w(1) == pytest.approx(400.0)


def test_a_later_engine_goes_on_and_counts_the_time_in_between() -> None:
    before, gpus = Usage(), card("A", attempt("a", "A"))
    for at in (0.0, 10.0):
        before.take([reading(at, energy_j=100 * at)], gpus)
    kept = before.histories()["a"]

    after = Usage()
    for at in (100.0, 110.0):
        after.take([reading(at, energy_j=100 * at)], gpus)
    after.go_on("a", kept, gpus)
    used = after.finish("a")

    assert used.history.at_s == [0.0, 10.0, 100.0, 110.0]
    assert used.history.drawn["A"] == (pytest.approx(11_000.0), pytest.approx(110.0))
    assert used.mean_util_percent == 50
