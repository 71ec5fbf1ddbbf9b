"""A question on a screen that has little room for it: every answer can be read or is scrolled to."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.app import App
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widgets import Button, Static

import gpudeck.tui
from tests.inside.tui import Choice, Option

PLAN = "changed, finished     train-sym-0.25 (command): they run again, unless their results are kept (--keep)"


class Rig(App[None]):
    CSS_PATH = Path(gpudeck.tui.__file__).parent / "styles" / "app.tcss"

    def seen(self) -> list[str]:
        """Labels of the answers that are on the screen as a whole."""
        frame = self.screen.query_one("#choice-answers").region
        return [str(each.label).strip() for each in self.screen.query(Button) if each.region in frame]


@asynccontextmanager
async def asked(answers: int, *lines: str) -> AsyncGenerator[tuple[Rig, Pilot[None]]]:
    """A question with so many answers."""
    rig = Rig()
    rig.animation_level = "none"
    async with rig.run_test(size=(80, 24)) as pilot:
        options = [Option(f"id-{at}", f"answer {at}") for at in range(answers)]
        await rig.push_screen(Choice("Which?", lines, options))
        await pilot.pause()
        yield rig, pilot


@pytest.mark.parametrize("lines", [(), ("why",)])
async def test_sixteen_answers_are_seen_at_80_columns(lines: tuple[str, ...]) -> None:
    async with asked(16, *lines) as (rig, _):
        assert len(rig.seen()) == 16
        assert not rig.screen.query_one("#choice", Vertical).border_subtitle


async def test_answers_that_do_not_fit_are_scrolled_to_and_said_to_be_there() -> None:
    async with asked(30, "why") as (rig, pilot):
        assert "answer 29" not in rig.seen()
        assert "30 answers" in str(rig.screen.query_one("#choice", Vertical).border_subtitle)
        await pilot.press("up")
        await pilot.pause()
        assert "answer 29" in rig.seen()


async def test_lines_that_are_folded_go_on_below_what_they_say() -> None:
    async with asked(2, PLAN) as (rig, _):
        explained = rig.screen.query_one("#choice-lines").query_one(Static)
        first, second = str(explained.content).splitlines()
        assert second.startswith(" " * first.index("train-sym"))
