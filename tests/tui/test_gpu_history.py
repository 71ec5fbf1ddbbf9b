"""Readings over time: what is kept of them, and how braille draws them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.protocol.wire import GpuRow
from tests.inside.tui import GpuHistory, Series, area

# -- series -----------------------------------------------------------------------------------------------------------


def kept(*readings: tuple[float, float | None], kept_s: int = 10) -> list[float | None]:
    series = Series(kept_s)
    for at, value in readings:
        series.add(at, value)
    return list(series.last(kept_s))


@pytest.mark.parametrize(
    ("readings", "series"),
    [
        ([(5.0, 10), (5.4, 11), (5.9, 12), (6.1, 13)], [12, 13]),
        ([(5, 10), (9, 20)], [10, 10, 10, 10, 20]),
        ([(5, 10), (6, None), (8, 20)], [10, None, None, 20]),
        ([(0, 1), (1000, 2)], [*[1] * 9, 2]),
        ([(5, 10), (3, 20)], [20]),
    ],
    ids=["one a second, the last", "holds until another", "a gap stays one", "old ones go", "a clock steps back"],
)
def test_a_series_has_a_value_a_second(readings: list[tuple[float, float | None]], series: list[float | None]) -> None:
    assert kept(*readings) == series


def test_only_what_was_asked_for_is_given_the_newest_last() -> None:
    series = Series()
    for second in range(5):
        series.add(second, second)

    assert list(series.last(2)) == [3, 4]


@given(st.lists(st.tuples(st.floats(0, 1e6), st.none() | st.floats(0, 100)), max_size=30))
def test_no_more_is_kept_than_was_said(readings: list[tuple[float, float | None]]) -> None:
    assert len(kept(*readings, kept_s=7)) <= 7


# -- all GPUs ---------------------------------------------------------------------------------------------------------


def gpu(uuid: str = "GPU-0", **more: Any) -> GpuRow:
    given = {"util_percent": 50, "used_mib": 1000, "total_mib": 4000} | more
    return GpuRow(index=0, uuid=uuid, **given)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "silent",
    [{"lost": "GPU is lost"}, {"stale_since": 1.0}, {"util_percent": None, "used_mib": None}],
    ids=["lost", "stale", "not told"],
)
def test_a_gpu_that_tells_nothing_has_a_gap(silent: dict[str, Any]) -> None:
    history = GpuHistory()
    for second, row in enumerate((gpu(), gpu(**silent), gpu())):
        history.take((row,), second)

    assert list(history.util("GPU-0", 9)) == [50, None, 50]
    assert list(history.memory("GPU-0", 9)) == [25, None, 25]


def test_an_engine_that_does_not_answer_leaves_a_gap() -> None:
    history = GpuHistory()
    history.take((gpu(),), 0)
    history.interrupt(1)
    history.take((gpu(),), 3)

    assert list(history.util("GPU-0", 9)) == [50, None, None, 50]


def test_a_gpu_that_is_no_longer_there_is_forgotten() -> None:
    history = GpuHistory()
    history.take((gpu("GPU-0"), gpu("GPU-1")), 0)
    history.take((gpu("GPU-1"),), 1)

    assert (list(history.util("GPU-0", 9)), list(history.util("GPU-1", 9))) == ([], [50, 50])


def test_unified_memory_has_no_share() -> None:
    history = GpuHistory()
    history.take((gpu(total_mib=None), gpu("GPU-1", total_mib=0)), 0)

    assert [*history.memory("GPU-0", 9), *history.memory("GPU-1", 9)] == [None, None]


# -- braille ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("readings", "width", "line"),
    [
        ([0, 25, 50, 75, 100, 100], 3, "⣀⣴⣿"),
        ([0, 0, None, None], 2, "⣀ "),
        ([100, None], 1, "⡇"),
        ([100], 3, "  ⢸"),
        ([1, 2, 3], 0, ""),
        ([1, 2, 3], -3, ""),
    ],
    ids=["levels", "zero is no gap", "half a cell", "newest right", "no room", "less than none"],
)
def test_readings_are_drawn(readings: list[float | None], width: int, line: str) -> None:
    assert area(readings, width) == line


@given(
    st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=50),
    st.integers(0, 20),
)
def test_any_readings_fill_exactly_their_room(values: list[float | None], width: int) -> None:
    line = area(values, width)

    assert len(line) == width
    assert all(char == " " or 0x2800 < ord(char) <= 0x28FF for char in line)
