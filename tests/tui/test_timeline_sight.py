"""The cursor of the timeline and the stretch of time around it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gpudeck.engine.protocol.pages import AttemptRow
from tests.inside.tui import Sight, lanes_of

NOW_S = 1e6


def ran(task: str, ago_s: float, for_s: float | None, *gpus: int, attempt: int = 1) -> AttemptRow:
    start = NOW_S - ago_s
    end = None if for_s is None else start + for_s
    return AttemptRow(task=task, attempt=attempt, gpus=gpus, start=start, end=end, kind="" if end is None else "ok")


ROWS = (
    ran("first", 3600, 600, 0), ran("second", 2900, 600, 0), ran("third", 2000, None, 0), ran("other", 3600, 1800, 1),
    ran("report", 100, 50),
)  # fmt: skip
UP_TO_GPU_0 = -3


def sight_of(rows: Iterable[AttemptRow] = ROWS, gpus: Iterable[int] = (0, 1, 2)) -> Sight:
    sight = Sight(NOW_S)
    sight.show(lanes_of(rows, list(gpus)), NOW_S)
    return sight


def task(sight: Sight) -> str | None:
    return None if sight.attempt is None else sight.attempt.task


def test_left_and_right_go_from_attempt_to_attempt() -> None:
    sight = sight_of()
    sight.move_lane(UP_TO_GPU_0)
    seen = [task(sight)]
    for step in (-1, -9, 1):
        sight.move_attempt(step, NOW_S)
        seen.append(task(sight))
    assert seen == ["third", "second", "first", "second"]


def test_up_and_down_stay_at_the_time_that_is_looked_at() -> None:
    sight = sight_of()
    sight.move_lane(UP_TO_GPU_0)
    sight.move_attempt(-2, NOW_S)
    sight.move_lane(1)
    assert task(sight) == "other"
    sight.move_lane(-1)
    assert task(sight) == "second"


def test_zooming_in_keeps_the_attempt_in_view() -> None:
    sight = sight_of()
    sight.move_lane(UP_TO_GPU_0)
    sight.move_attempt(-2, NOW_S)
    for _ in range(6):
        sight.zoom(1, NOW_S)
    assert NOW_S - 3600 <= sight.window.start < sight.window.end <= NOW_S - 3000
    assert sight.window.span_s < 120


def test_all_is_shown_until_the_user_looks_closer_and_again_when_asked() -> None:
    sight = sight_of()
    span_s = sight.window.span_s
    sight.zoom(1, NOW_S)
    sight.pass_time(NOW_S)
    assert sight.window.span_s == span_s / 2
    sight.show_all(NOW_S)
    assert sight.window.span_s == span_s


def test_a_view_of_the_present_goes_on_with_it() -> None:
    sight = sight_of()
    sight.zoom(1, NOW_S)
    sight.follow(NOW_S)
    end = sight.window.end
    sight.pass_time(NOW_S + 60)
    assert sight.window.end == pytest.approx(end + 60)


def test_a_view_of_the_past_stays_where_it_is() -> None:
    sight = sight_of()
    sight.look(sight.window.panned(-2), NOW_S)
    window = sight.window
    sight.pass_time(NOW_S + 60)
    assert sight.window == window


def test_what_is_over_does_not_move_with_time() -> None:
    assert not sight_of([ran("a", 100, 10, 0)]).moves


def test_what_lasts_moves_with_time() -> None:
    assert sight_of([ran("a", 100, None, 0)]).moves


def test_the_cursor_stays_on_its_attempt_when_others_come() -> None:
    sight = sight_of()
    sight.move_lane(UP_TO_GPU_0)
    sight.move_attempt(-1, NOW_S)
    sight.show(lanes_of([*ROWS, ran("new", 3700, 50, 0), ran("newer", 10, 5, 1)], (0, 1, 2)), NOW_S)
    assert task(sight) == "second"


def test_the_cursor_goes_to_the_newest_of_all_when_its_lane_is_gone() -> None:
    sight = sight_of()
    sight.show(lanes_of([ran("other", 3600, 1800, 1), ran("older", 4000, 10, 0)], ()), NOW_S)
    assert task(sight) == "other"
