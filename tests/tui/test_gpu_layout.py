"""Panes share their room, and the cursor goes from one to the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.tui import FOLDED, FULL, SHORT, Layout
from tests.inside.tui import layout_lay_out as lay_out


@pytest.mark.parametrize(
    ("count", "width", "height", "columns", "pane_height"),
    [
        (1, 80, 24, 1, FULL), (2, 80, 12, 1, FULL), (2, 80, 11, 1, SHORT), (2, 80, 7, 1, FOLDED),
        (4, 120, 24, 1, FULL), (4, 120, 12, 2, FULL), (4, 200, 60, 2, FULL), (7, 120, 60, 1, FULL),
        (8, 200, 60, 1, FOLDED), (16, 200, 10, 2, FOLDED), (16, 80, 10, 1, FOLDED), (1, 200, 60, 1, FULL),
    ],
)  # fmt: skip
def test_panes_are_as_tall_as_there_is_room(
    count: int, width: int, height: int, columns: int, pane_height: int
) -> None:
    found = lay_out(count, width, height)

    assert (found.columns, found.pane_height) == (columns, pane_height)


@given(st.integers(0, 40), st.integers(0, 300), st.integers(0, 100))
def test_every_pane_is_found_where_it_is(count: int, width: int, height: int) -> None:
    found = lay_out(count, width, height)

    for place in range(count):
        x = place % found.columns * found.pane_width
        assert found.at(x, found.top(place)) == place
        assert found.top(place) + found.pane_height <= found.height
    assert found.at(0, found.height) is None


@pytest.mark.parametrize(
    ("step", "place", "target"),
    [
        ("down", 0, 2), ("up", 2, 0), ("gpu_left", 1, 0), ("gpu_right", 1, 2), ("top", 4, 0),
        ("bottom", 0, 4),
        ("page_down", 0, 4), ("page_up", 4, 0), ("page_down", 3, 4),
    ],
)  # fmt: skip
def test_a_step_leads_to_the_pane_that_is_seen_there(step: str, place: int, target: int) -> None:
    assert Layout(5, 2, SHORT, 40).after(place, step, seen_height=2 * SHORT) == target


@pytest.mark.parametrize(("step", "place"), [("down", 3), ("down", 4), ("up", 1), ("gpu_left", 0), ("gpu_right", 4)])
def test_at_the_border_a_step_stays_where_it_is(step: str, place: int) -> None:
    assert Layout(5, 2, SHORT, 40).after(place, step, seen_height=2 * SHORT) == place
