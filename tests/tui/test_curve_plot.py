"""Braille line plots and charts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.tui import Curve, chart, length, plot

FLOATS = st.floats(allow_nan=True, allow_infinity=True)


def curve(*values: float, name: str = "loss") -> Curve:
    points = tuple((float(at), value) for at, value in enumerate(values))
    finite = [point for point in points if math.isfinite(point[1])]
    low = min(finite, key=lambda point: point[1], default=None)
    high = max(finite, key=lambda point: point[1], default=None)
    return Curve(name, "step", points, len(values), values[-1], low, high)


def test_a_rise_goes_from_the_lower_left_to_the_upper_right() -> None:
    upper, lower = plot([(0, 0), (1, 1)], 4, 2, low=0, high=1)
    assert upper.startswith("  ")
    assert not upper.endswith(" ")
    assert lower.endswith("  ")
    assert not lower.startswith(" ")


def test_equal_values_are_a_level_line() -> None:
    assert len(set(plot([(0, 5), (9, 5)], 3, 1, low=5, high=5)[0])) == 1


def test_what_is_no_number_interrupts_the_line() -> None:
    (line,) = plot([(0, 0), (1, math.nan), (2, 0)], 5, 1, low=0, high=1)
    assert line[0] != " "
    assert line[1:4] == "   "
    assert line[4] != " "


def test_nothing_finite_is_blank() -> None:
    assert plot([(0, math.inf), (1, math.nan)], 3, 2, low=0, high=1) == ["   ", "   "]


@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=20), FLOATS, FLOATS, st.integers(0, 12), st.integers(0, 5))
def test_any_points_fill_the_same_rectangle(
    points: list[tuple[float, float]], low: float, high: float, width: int, height: int
) -> None:
    assert [len(line) for line in plot(points, width, height, low=low, high=high)] == [width] * height


@given(st.lists(FLOATS, min_size=1, max_size=30), st.text(max_size=40), st.integers(10, 200))
def test_no_line_of_a_chart_is_wider_than_it_may_be(values: list[float], name: str, width: int) -> None:
    assert max(map(length, chart(curve(*values, name=name), width))) <= width


def test_a_chart_names_least_greatest_and_last_value() -> None:
    text = "\n".join("".join(span.text for span in line) for line in chart(curve(2.0, 0.5, 1.0), 80))
    assert "loss  1   min 0.5 at step 1   max 2 at step 0" in text


def test_a_single_value_has_no_plot() -> None:
    assert len(chart(curve(2.0), 80)) == 1


@pytest.mark.parametrize("width", [10, 20])
def test_a_narrow_chart_is_its_numbers(width: int) -> None:
    assert len(chart(curve(2.0, 1.0), width)) == 1
