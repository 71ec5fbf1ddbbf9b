"""The first lines of the screen: how the deck stands, and what keeps it from going on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ...engine.protocol.wire import DeckHead
from ..model import DeckModel
from .heading import Line, heading

_TONES = ("strong", "muted", "running", "good", "bad", "warn", "rest")
TALL = 30
"""Rows of the screen from which all notes are shown, not one."""


class DeckHeader(Widget):
    """As high as what it has to say."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"deckheader--{tone}" for tone in _TONES}
    DEFAULT_CSS = "DeckHeader { height: 2; }"
    ALLOW_SELECT = False

    class Grown(Message):
        """It takes more rows now, or fewer."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        """*now*: seconds since the epoch."""
        super().__init__(id=id, classes=classes)
        self._now = now
        self._deck = DeckModel()
        self._head: DeckHead | None = None
        self._told_s = 0.0
        """When the deck's head came: its ETA counts from then."""
        self._lines: list[Line] = []

    def show(self, deck: DeckModel) -> None:
        """The deck as it is now; draws what differs."""
        self._deck = deck
        if deck.head is not self._head:
            self._head, self._told_s = deck.head, self._now()
        self._redraw()

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        before, self._lines = self._lines, self._made(self.size.width)
        if len(before) != len(self._lines):
            self.styles.height = self.rows
            self.post_message(self.Grown())
        if before != self._lines:
            self.refresh()

    def _made(self, width: int) -> list[Line]:
        shown_notes = 3 if self.screen.size.height >= TALL else 1
        return heading(self._deck, width, self._told_s, notes=shown_notes) if width else []

    @property
    def rows(self) -> int:
        """What it takes, also before the screen has been laid out anew."""
        return max(2, len(self._lines))

    def render_line(self, y: int) -> Strip:
        plain = self.rich_style
        line = self._lines[y] if y < len(self._lines) else []
        segments = [Segment(text, plain + self._style(tone)) for text, tone in line if text]
        return Strip(segments).adjust_cell_length(self.size.width, plain)

    def _style(self, tone: str) -> Style:
        if tone not in _TONES:
            return Style()
        style = self.get_component_rich_style(f"deckheader--{tone}")
        return Style(color=style.color, bold=style.bold or None, dim=style.dim or None)
