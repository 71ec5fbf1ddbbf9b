"""Text for terminals that take nothing but ASCII."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.inside.tui import FLAGS, LOOKS, plain, takes_glyphs

TUI = Path(__file__).parents[2] / "tui"
SAME = {frozenset(pair) for pair in (("stopping", "closing"), ("pending", "starting"))}
"""States that share their glyph anyway."""


def test_states_can_still_be_told_apart() -> None:
    alike = [
        frozenset(pair) for pair in combinations(LOOKS, 2) if len({plain(LOOKS[state].glyph) for state in pair}) == 1
    ]
    assert set(alike) <= SAME


def test_flags_can_still_be_told_apart() -> None:
    assert len({plain(mark) for mark, _ in FLAGS.values()}) == len(FLAGS)


def test_everything_that_the_screen_draws_has_a_counterpart() -> None:
    drawn = {char for path in TUI.rglob("*.py") for char in path.read_text() if not char.isascii()}
    unknown = {char for char in drawn if "?" in plain(char)} - set("\ufffd")
    assert {char for char in unknown if not re.match(r"\s", char)} == set()


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Mn", "Me"), exclude_characters="\xad")))
def test_it_is_as_wide_as_before(text: str) -> None:
    assert plain(text).isascii()
    assert len(plain(text)) == sum(map(cell_len, text))


def test_escape_sequences_stay_as_they_are() -> None:
    assert plain("\x1b[31mé\x1b[0m\r\n") == "\x1b[31me\x1b[0m\r\n"


@pytest.mark.parametrize(
    ("environ", "glyphs"),
    [
        ({"TERM": "xterm", "LANG": "en_US.UTF-8"}, True),
        ({"TERM": "xterm", "LANG": "en_US.utf8@euro"}, True),
        ({"TERM": "xterm", "LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "xterm", "LC_CTYPE": "UTF-8", "LANG": "C"}, True),
        ({"TERM": "xterm", "LANG": "de_DE"}, False),
        ({"TERM": "xterm", "LC_ALL": ""}, True),
        ({"TERM": "screen", "TMUX": "/tmp/tmux-0/default,1,0"}, False),
        ({"TERM": "linux", "LANG": "C.UTF-8"}, False),
        ({"TERM": "vt100", "LANG": "C.UTF-8"}, False),
        ({}, True),
    ],
)
def test_the_locale_and_the_terminal_decide(environ: dict[str, str], glyphs: bool) -> None:
    assert takes_glyphs(environ) is glyphs
