"""When a deck may be over, for whoever shows it."""

from __future__ import annotations

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.forecast import Forecast, forecast
from gpudeck.engine.core.spec import DeckSettings, Halt
from gpudeck.engine.ports import Instant
from tests.inside.core import DeckView, Forecasts

HOUR = 3600.0


class StillClock:
    """Of a world."""

    def __init__(self, found: World) -> None:
        self._found = found

    def now(self) -> Instant:
        return Instant(self._found.now, 0.0)


def under_way(halt: Halt | None = None) -> World:
    """`a` runs for another minute, as it says."""
    found = world(spec("a"), spec("bad"), gpus=2, settings=DeckSettings(halt=halt))
    found.give(i.Progressed(found.proc("a").token, 60.0))
    return found


def view_of(found: World) -> DeckView:
    forecasts = Forecasts(found.deck, lambda: found.now)
    return DeckView(found.deck, StillClock(found), file="tasks.toml", infos={}, forecasts=forecasts)


def measured(*tasks: object, lasted_s: float = HOUR, **more: object) -> World:
    """A world in which a task of each entry that is named has lasted so long."""
    found = world(*tasks, begin=False, **more)  # pyright: ignore[reportArgumentType]
    for entry in found.deck.entries.values():
        entry.learn(lasted_s)
    found.begin()
    return found


def test_a_deck_that_is_paused_has_no_end_to_tell() -> None:
    found = under_way()
    found.end("bad")
    view = view_of(found)
    assert view.head().eta_s == pytest.approx(60.0)
    found.verb("pause")
    assert view.head().eta_s is None
    found.verb("unpause")
    assert view.head().eta_s == pytest.approx(60.0)


def test_a_deck_that_is_halted_has_no_end_to_tell() -> None:
    found = under_way(halt=Halt("soon", 1))
    found.end("bad", 1)
    assert found.deck.run.halted
    assert view_of(found).head().eta_s is None


def test_tasks_that_take_all_gpus_run_one_after_the_other() -> None:
    found = measured(*(spec(f"t{n}", gpus=4) for n in range(8)), gpus=4)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(8 * HOUR))


def test_tasks_that_leave_a_gpu_over_run_one_after_the_other() -> None:
    found = measured(*(spec(f"t{n}", gpus=3) for n in range(3)), gpus=4)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(3 * HOUR))


def test_what_needs_another_comes_after_it_though_gpus_are_free() -> None:
    found = measured(spec("a"), spec("b", needs=("a",)), spec("c", needs=("b",)), gpus=8)
    found.advance(HOUR / 2)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(2.5 * HOUR))


def test_tasks_that_nobody_has_measured_leave_a_lower_bound() -> None:
    found = measured(spec("a"), spec("b"), gpus=1)
    long = world(spec("a"), spec("b"), spec("eval", needs=("a", "b")), spec("report", needs=("eval",)), gpus=1)
    long.give(i.Progressed(long.proc("a").token, 600.0))
    long.deck.tasks[1].entry.learn(HOUR)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(2 * HOUR))
    assert forecast(long.deck, long.now) == Forecast(pytest.approx(600.0 + HOUR), unmeasured=2)
    head = view_of(long).head()
    assert (head.eta_s, head.unmeasured) == (pytest.approx(600.0 + HOUR), 2)


def test_of_a_deck_that_nobody_has_measured_nothing_is_told() -> None:
    found = world(spec("a"), spec("b"), gpus=1)
    assert forecast(found.deck, found.now) == Forecast(None, unmeasured=2)


def test_of_thousands_of_short_tasks_one_long_one_is_not_taken_for_the_mean() -> None:
    short = (spec(f"t{n}", entry="short") for n in range(6000))
    found = world(*short, spec("long", entry="long"), gpus=4, begin=False)
    found.deck.entries["short"].learn(10.0)
    found.deck.entries["long"].learn(10 * HOUR)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(10 * HOUR))


def test_thousands_of_tasks_that_take_all_gpus_run_one_after_the_other() -> None:
    found = world(*(spec(f"t{n}", entry="all", gpus="all") for n in range(6000)), gpus=4, begin=False)
    found.deck.entries["all"].learn(10.0)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(60_000.0))


def test_thousands_of_tasks_share_the_gpus_that_there_are() -> None:
    found = world(*(spec(f"t{n}", entry="all") for n in range(1500)), gpus=1, begin=False)
    found.deck.entries["all"].learn(10.0)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(15_000.0))


def test_the_wait_before_a_retry_is_in_the_time_left() -> None:
    found = measured(spec("a", retries=1, backoff_s=600.0))
    found.end("a", 1)
    due = found.deck.next_deadline()
    assert due is not None
    assert forecast(found.deck, found.now).left_s == pytest.approx(due - found.now + HOUR)


def test_a_held_task_and_what_waits_for_it_are_not_in_the_time_left() -> None:
    found = measured(spec("a"), spec("b"), spec("c", needs=("b",)), gpus=1)
    found.verb("hold", "b")
    found.advance(HOUR / 2)
    assert forecast(found.deck, found.now).left_s == pytest.approx(HOUR / 2)
    found.end("a")
    assert forecast(found.deck, found.now).left_s is None


def test_what_others_of_its_entry_took_tells_nothing_of_a_task_with_values_of_a_retry() -> None:
    found = measured(spec("a"), spec("b", given=(("epochs", "50"),)), gpus=1)
    assert forecast(found.deck, found.now) == Forecast(pytest.approx(HOUR), 1)


def test_a_round_that_is_still_to_come_is_in_the_time_left() -> None:
    found = measured(*(spec(f"t{n}-{k}", round=n) for n in range(3) for k in range(2)), gpus=4)
    assert forecast(found.deck, found.now).left_s == pytest.approx(3 * HOUR)


def test_a_forecast_changes_nothing_in_the_deck() -> None:
    found = measured(*(spec(f"t{n}", gpus=2) for n in range(5)), gpus=4)
    before = found.phases()
    forecast(found.deck, found.now)
    found.settle()
    assert found.phases() == before
