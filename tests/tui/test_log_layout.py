"""Which streams of a log view are seen, and how high they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.tui import Parts, alone, shares, together


@pytest.mark.parametrize(
    ("height", "first", "second", "wanted"),
    [(20, 100, 100, (12, 8)), (20, 100, 3, (17, 3)), (20, 4, 100, (4, 16)), (20, 5, 6, (14, 6)), (20, 100, 0, (20, 0)),
     (20, 0, 100, (0, 20)), (20, 0, 0, (20, 0)), (2, 100, 100, (2, 0))],
)  # fmt: skip
def test_room_is_shared_by_need(height: int, first: int, second: int, wanted: tuple[int, int]) -> None:
    assert shares(height, first, second) == wanted


def test_a_stream_alone_has_all_the_room() -> None:
    assert alone(second=True) == Parts(first=False, second=True, divider=False)


def test_in_a_large_view_a_stream_without_rows_is_told_by_its_divider() -> None:
    assert together(20, 50, 0, compact=False) == Parts(first=True, second=False, divider=True, second_height=0)


@pytest.mark.parametrize(
    ("first", "second", "wanted"), [(50, 0, (True, False)), (0, 50, (False, True)), (0, 0, (True, False))]
)
def test_in_a_small_view_a_stream_without_rows_takes_no_line(
    first: int, second: int, wanted: tuple[bool, bool]
) -> None:
    parts = together(6, first, second, compact=True)
    assert (parts.first, parts.second, parts.divider) == (*wanted, False)


@given(st.integers(1, 60), st.integers(0, 100), st.integers(0, 100), st.booleans())
def test_something_is_always_seen(height: int, first: int, second: int, compact: bool) -> None:
    parts = together(height, first, second, compact=compact)
    assert parts.first or parts.second
