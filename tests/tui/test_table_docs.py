"""docs/screen.md tells what the table shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.selector import STATES
from tests.inside.tui import COLUMNS, FLAGS, LOOKS
from tests.inside.tui import filtering_parse as parse

PAGE = (Path(__file__).parents[2] / "docs" / "screen.md").read_text()


@pytest.mark.parametrize("column", list(COLUMNS))
def test_it_names_every_column(column: str) -> None:
    assert f"`{column}`" in PAGE


@pytest.mark.parametrize("state", list(LOOKS))
def test_it_shows_the_glyph_of_every_state(state: str) -> None:
    assert f"`{LOOKS[state].glyph}`" in PAGE
    assert state in PAGE


@pytest.mark.parametrize("flag", list(FLAGS))
def test_it_shows_the_mark_of_every_flag(flag: str) -> None:
    assert f"`{FLAGS[flag][0]}` {FLAGS[flag][1].split()[0]}" in PAGE


@pytest.mark.parametrize("state", STATES)
def test_every_state_that_selectors_know_can_be_filtered_for(state: str) -> None:
    assert parse(f"state:{state}").tests
