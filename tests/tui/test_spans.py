"""Pieces of a line are cut and left out where there is no room, and bars fill theirs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.tui import Part, bar, cut, pack


def test_the_least_important_part_goes_first_and_is_cut_before() -> None:
    parts = [Part(0, (("badge", "bad"),)), Part(2, (("a long note", "dim"),)), Part(1, (("task", "task"),))]

    assert "".join(span for span, _ in pack(parts, 21)) == "badge  a long…  task"
    assert "".join(span for span, _ in pack(parts, 12)) == "badge  task"


def test_one_cell_too_many_is_taken_from_the_least_important_part() -> None:
    parts = [Part(1, (("a long note", "dim"),)), Part(0, (("badge", "bad"),))]

    assert "".join(span for span, _ in pack(parts, 17)) == "a long no…  badge"


def test_the_last_part_is_cut_however_little_room_there_is() -> None:
    assert "".join(span for span, _ in pack([Part(0, (("badge", "bad"),))], 3)) == "ba…"


def test_a_cut_text_says_so() -> None:
    assert cut([("abc", "a"), ("def", "b")], 4) == [("abc", "a"), ("", "b"), ("…", "dim")]


def drawn_bar(*shares: tuple[float, str], width: int = 8) -> str:
    return "".join(span for span, _ in bar(shares, width))


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.0, "        "), (0.5, "████    "), (1.0, "████████"), (7.0, "████████"), (0.0001, "▏       ")],
)
def test_a_bar_shows_its_share(share: float, shown: str) -> None:
    assert drawn_bar((share, "util")) == shown


def test_small_shares_of_several_are_seen_each() -> None:
    assert drawn_bar((0.5, "deck"), (0.001, "mine"), (0.001, "others")) == "████▓▒  "


@given(
    st.lists(st.tuples(st.floats(-1, 2), st.sampled_from(["deck", "mine", "others"])), min_size=1), st.integers(0, 40)
)
def test_a_bar_always_fills_its_room(shares: list[tuple[float, str]], width: int) -> None:
    assert len(drawn_bar(*shares, width=width)) == width
