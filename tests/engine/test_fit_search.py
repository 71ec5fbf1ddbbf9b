"""The search for the largest value that fits, against every limit that there may be."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.inside.engine import Search, grid


def searched(search: Search, limit: int) -> tuple[Search, list[int]]:
    """To its end, where values up to *limit* fit."""
    tried: list[int] = []
    while (value := search.next()) is not None:
        tried.append(value)
        search = search.told(value, fits=value <= limit)
    return search, tried


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 64), st.integers(-1, 6001))
def test_the_answer_is_right_for_every_limit_and_needs_few_trials(low: int, more: int, step: int, limit: int) -> None:
    values = grid(low, low + more, step)
    found, tried = searched(Search(values), limit)
    assert found.best == max((value for value in values if value <= limit), default=None)
    assert len(tried) == len(set(tried)) <= 2 * math.log2(len(values)) + 2
    assert found.exhausted is (limit >= values[-1])


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 1 << 41))
def test_powers_of_two_are_tried_upwards_until_one_is_too_large(low: int, more: int, limit: int) -> None:
    values = grid(1 << low, 1 << (low + more), None)
    found, tried = searched(Search(values), limit)
    assert tried == [value for value in values if value <= limit] + [value for value in values if value > limit][:1]
    assert found.best == max((value for value in values if value <= limit), default=None)


def test_whole_numbers_are_doubled_and_then_halved_between() -> None:
    assert searched(Search(grid(4, 200, None)), 77)[1] == [4, 8, 16, 32, 64, 128, 96, 80, 72, 76, 78, 77]


def test_one_value_alone_is_tried_once() -> None:
    assert searched(Search(grid(7, 7, None)), 9) == (Search(range(7, 8), fits=0), [7])
