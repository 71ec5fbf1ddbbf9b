"""When a deck may start tasks: `begin` and `between`, by the box's own clock."""

from __future__ import annotations

import time

import pytest
from core_world import World, spec, world

from gpudeck.engine.core.explain import Explainer
from gpudeck.engine.core.hours import Clock, Hours
from gpudeck.engine.core.simulate import simulate
from gpudeck.engine.core.spec import DeckSettings

BEGAN = world(spec("a"), begin=False).wall
NOON = time.mktime((2026, 11, 28, 12, 0, 0, 0, 0, -1))


def at(hour: int, minute: int = 0, *, days: int = 0) -> float:
    return time.mktime((2026, 11, 28 + days, hour, minute, 0, 0, 0, -1))


def clock_in(minutes: int) -> Clock:
    """The time of day that it is so long after the world begins."""
    then = time.localtime(BEGAN + 60 * minutes)
    return Clock(then.tm_hour, then.tm_min)


def hours(first: int, last: int) -> DeckSettings:
    """In minutes from when the world begins."""
    return DeckSettings(between=Hours(clock_in(first), clock_in(last)))


def why(found: World) -> list[str]:
    return [obstacle.kind for obstacle in Explainer(found.deck, found.now).obstacles(found.task("a"))]


@pytest.mark.parametrize(
    ("first", "last", "moment", "opens"),
    [
        (9, 17, at(12), at(12)),
        (9, 17, at(17), at(9, days=1)),
        (9, 17, at(8, 59), at(9)),
        (20, 8, at(12), at(20)),
        (20, 8, at(23), at(23)),
        (20, 8, at(7, 59), at(7, 59)),
        (20, 8, at(8), at(20)),
    ],
)
def test_hours_that_end_before_they_begin_go_over_midnight(first: int, last: int, moment: float, opens: float) -> None:
    assert Hours(Clock(first, 0), Clock(last, 0)).opens(moment) == opens


def test_a_time_of_day_is_the_next_one_and_a_date_is_that_one() -> None:
    assert [Clock(11, 30).next(NOON), Clock(12, 0).next(NOON)] == [at(11, 30, days=1), NOON]
    assert Clock(11, 30, (2026, 11, 28)).next(NOON) == at(11, 30)


def test_nothing_starts_before_its_hours_and_all_does_at_their_first_moment() -> None:
    found = world(spec("a"), spec("b"), gpus=2, settings=hours(180, 240))
    assert (found.running(), why(found)) == ({}, ["hours"])
    found.advance(180 * 60 - 61)
    assert found.running() == {}
    found.advance(61)
    assert found.running() == {"a": (0,), "b": (1,)}


def test_what_runs_when_the_hours_are_over_goes_on_and_the_next_waits_for_the_next_day() -> None:
    found = world(spec("b"), spec("a"), settings=hours(-60, 60))
    found.advance(2 * 3600)
    assert found.running() == {"b": (0,)}
    found.end("b")
    assert (found.running(), why(found)) == ({}, ["hours"])
    found.advance(21 * 3600)
    assert found.running() == {"a": (0,)}


def test_a_clock_that_is_set_forward_is_noticed_soon() -> None:
    found = world(spec("a"), settings=hours(180, 240))
    found.past += 200 * 60
    found.advance(600)
    assert found.running() == {"a": (0,)}


def test_a_run_begins_at_its_time_once_and_a_restart_does_not_wait_for_the_next_day() -> None:
    found = world(spec("a"), spec("b"), settings=DeckSettings(begin=clock_in(10)))
    found.advance(9 * 60)
    assert (found.running(), why(found)) == ({}, ["hours"])
    found.advance(61)
    assert found.running() == {"a": (0,)}
    found.end("a")
    found.restart()
    assert found.running() == {"b": (0,)}


def test_a_plan_counts_the_hours_in_which_nothing_starts() -> None:
    found = world(spec("b"), spec("a"), settings=hours(60, 90), begin=False)
    planned = simulate(found.deck, lambda _: 3600.0, wall=found.wall, at=found.now)
    starts = [item.start_s for item in planned]
    assert starts == pytest.approx([3600 - BEGAN % 60, 25 * 3600 - BEGAN % 60])


def test_a_task_waits_for_its_own_hours_and_others_of_the_same_kind_do_not() -> None:
    found = world(spec("a", between=Hours(clock_in(180), clock_in(240))), spec("b"), spec("c"))
    assert (found.running(), why(found)) == ({"b": (0,)}, ["hours"])
    found.end("b")
    assert found.running() == {"c": (0,)}
    found.end("c")
    found.advance(180 * 60 - 61)
    assert found.running() == {}
    found.advance(61)
    assert found.running() == {"a": (0,)}


def test_a_task_with_hours_keeps_nothing_from_starting_that_is_behind_it() -> None:
    pair = spec("pair", gpus=2, cpus=4, begin=clock_in(60))
    found = world(pair, spec("a", cpus=4), spec("b", gpus=2), gpus=2)
    found.end("a")
    assert found.running() == {"b": (0, 1)}
    found.end("b")
    found.advance(3600)
    assert found.running() == {"pair": (0, 1)}


def test_the_time_left_counts_the_hours_of_tasks() -> None:
    found = world(spec("b"), spec("a", begin=clock_in(60)), begin=False)
    planned = simulate(found.deck, lambda _: 600.0, wall=found.wall, at=found.now)
    assert [item.start_s for item in planned] == pytest.approx([0, 3600 - BEGAN % 60])
