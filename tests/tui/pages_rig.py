"""A tiny app around one of the pages' views, and what it posts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from textual import on
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

import gpudeck.tui
from gpudeck.tui.messages import Acted, FilterTable, OpenLogs, OpenTask
from gpudeck.tui.settings import THEMES

NOW_S = 1_800_000_000.0


class PageApp(App[None]):
    CSS_PATH = Path(gpudeck.tui.__file__).parent / "styles" / "pages.tcss"

    def __init__(self, view: Widget, theme: str = "gpudeck") -> None:
        super().__init__()
        self.view = view
        self.told: list[Message] = []
        self._wanted = theme

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self._wanted
        self.view.focus()

    @on(OpenTask)
    @on(OpenLogs)
    @on(Acted)
    @on(FilterTable)
    def tell(self, message: Message) -> None:
        self.told.append(message)


def lines(view: Widget) -> list[str]:
    """What is on the screen, without blanks at the ends."""
    return [view.render_line(y).text.rstrip() for y in range(view.scrollable_content_region.height)]


@asynccontextmanager
async def page_app(
    view: Widget, *, size: tuple[int, int] = (80, 24), theme: str = "gpudeck"
) -> AsyncGenerator[tuple[PageApp, Pilot[None]]]:
    """The view on a terminal of that size."""
    app = PageApp(view, theme)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


HOSTILE: Sequence[str] = (
    "a\x1b[31mb", "a\x1b]52;c;aGk=\x07b", "a\x9b31mb", "[red]a[/]", "a\u202eb", "a\x00b", "a\nb\rc\td", "[/]", "\ud800",
)  # fmt: skip
"""Names and reasons that must harm nothing."""


def is_harmless(text: str) -> bool:
    return not any(
        ord(char) < 32 or 127 <= ord(char) < 160 or char in "\u202a\u202b\u202d\u202e\u2066\u2067" for char in text
    )
