"""When a task will be over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.logs import Pace, Rank


def paced(*samples: tuple[float, float]) -> Pace:
    pace = Pace()
    for at, share in samples:
        pace.add(at, share)
    return pace


def test_a_steady_pace_tells_the_end() -> None:
    pace = paced(*((10.0 * n, n / 100) for n in range(20)))
    assert pace.end(190.0, Rank.EPOCH) == pytest.approx(1000.0)


def test_one_reading_tells_nothing() -> None:
    assert paced((0.0, 0.5)).end(100.0, Rank.EPOCH) is None


def test_a_start_from_a_checkpoint_is_not_taken_for_speed() -> None:
    pace = paced((0.0, 0.6), (10.0, 0.61), (20.0, 0.62))
    assert pace.end(20.0, Rank.EPOCH) == pytest.approx(400.0)


def test_the_recent_pace_counts() -> None:
    slow = [(100.0 * n, 0.01 * n) for n in range(11)]
    fast = [(1000.0 + n, 0.1 + 0.001 * n) for n in range(1, 301)]
    end = paced(*slow, *fast).end(1300.0, Rank.EPOCH)
    assert end == pytest.approx(1900.0, rel=0.1)


def test_of_a_young_task_all_that_is_known_counts() -> None:
    pace = paced((0.0, 0.0), (10.0, 0.01), (20.0, 0.1), (30.0, 0.2))
    assert pace.end(30.0, Rank.EPOCH) == pytest.approx(150.0)


def test_between_two_steps_the_end_stays() -> None:
    pace = paced((0.0, 0.0), (100.0, 0.1), (200.0, 0.2))
    assert pace.end(200.0, Rank.EPOCH) == pace.end(290.0, Rank.EPOCH)


def test_a_task_that_stalls_will_be_over_later() -> None:
    pace = paced((0.0, 0.0), (100.0, 0.1), (200.0, 0.2))
    stalled = pace.end(2000.0, Rank.EPOCH)
    assert stalled is not None
    assert stalled > 2000.0 + 4 * 1800


def test_a_bar_is_believed_later_than_an_epoch() -> None:
    pace = paced((0.0, 0.0), (10.0, 0.1))
    assert pace.end(10.0, Rank.STEP) is None
    assert pace.end(10.0, Rank.EPOCH) == pytest.approx(100.0)


def test_what_would_take_for_ever_is_unknown() -> None:
    assert paced((0.0, 0.0), (1e6, 1e-9)).end(1e6, Rank.EPOCH) is None


def test_a_counter_at_its_end_tells_nothing_of_a_task_that_runs_on() -> None:
    assert paced((0.0, 0.5), (10.0, 1.0)).end(12.0, Rank.EPOCH) is None


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(0, 1)), max_size=200), st.floats(0, 1e7))
def test_the_end_is_never_in_the_past(samples: list[tuple[float, float]], later: float) -> None:
    now = max([at for at, _ in samples], default=0.0) + later
    end = paced(*samples).end(now, Rank.EPOCH)
    assert end is None or end >= now
