"""A question on a screen that has little room for it: every answer can be read or is scrolled to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
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


Body = Callable[[Rig, Pilot[None]], Awaitable[None]]


def asked(answers: int, lines: Sequence[str], size: tuple[int, int], body: Body) -> None:
    """Run *body* over a question with so many answers."""

    async def run() -> None:
        rig = Rig()
        rig.animation_level = "none"
        async with rig.run_test(size=size) as pilot:
            options = [Option(f"id-{at}", f"answer {at}") for at in range(answers)]
            await rig.push_screen(Choice("Which?", lines, options))
            await pilot.pause()
            await body(rig, pilot)

    asyncio.run(run())


@pytest.mark.parametrize("lines", [(), ("why",)])
def test_sixteen_answers_are_seen_at_80_columns(lines: tuple[str, ...]) -> None:
    async def body(rig: Rig, _: Pilot[None]) -> None:
        assert len(rig.seen()) == 16
        assert not rig.screen.query_one("#choice", Vertical).border_subtitle

    asked(16, lines, (80, 24), body)


def test_answers_that_do_not_fit_are_scrolled_to_and_said_to_be_there() -> None:
    async def body(rig: Rig, pilot: Pilot[None]) -> None:
        assert "answer 29" not in rig.seen()
        assert "30 answers" in str(rig.screen.query_one("#choice", Vertical).border_subtitle)
        await pilot.press("up")
        await pilot.pause()
        assert "answer 29" in rig.seen()

    asked(30, ("why",), (80, 24), body)


def test_lines_that_are_folded_go_on_below_what_they_say() -> None:
    async def body(rig: Rig, _: Pilot[None]) -> None:
        explained = rig.screen.query_one("#choice-lines").query_one(Static)
        first, second = str(explained.content).splitlines()
        assert second.startswith(" " * first.index("train-sym"))

    asked(2, (PLAN,), (80, 24), body)
