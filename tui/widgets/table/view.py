"""Shows a `TableState` as lines and keeps what the user looks at in its place. Draws only what differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ....engine.protocol.states import ACTIVE
from ...model import DeckModel
from ..columns import chosen, known
from .lines import TableLines
from .paint import COMPONENTS, Paint
from .state import TableState

HEADER = 1
"""Lines above the first task."""
RESORT_S = 1.0
"""Between two resorts, and since the user last moved."""


class TableView(ScrollView, can_focus=True, inherit_bindings=False):
    """`TaskTable` without the keys, the mouse and what it posts."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS.values())
    ALLOW_SELECT = False
    DEFAULT_CSS = "TableView { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"

    def __init__(
        self,
        columns: Sequence[str] = (),
        *,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        tick_s: float = 1.0,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        """*columns*: ids of `columns.COLUMNS`; none: what suits the width. *now*: seconds since the epoch. *tick_s*:
        between two looks at what time alone changes."""
        super().__init__(id=id, classes=classes)
        self._chosen, self.unknown_columns = known(columns)
        self._state = TableState(self._chosen)
        self._now, self._steady, self._tick_s = now, steady, tick_s
        self._lines = TableLines(self._state, now)
        self._moved_at = self._sorted_at = float("-inf")
        self._paint: Paint | None = None
        self._away: int | None = None
        """Where in the view the cursor's row was that is not there now, but may come back."""

    def on_mount(self) -> None:
        self.set_interval(self._tick_s, self._tick)

    def _tell(self) -> None:
        """The cursor may be on another task, the marks on others."""

    # -- changes of the deck ------------------------------------------------------------------------------------------

    def show(self, deck: DeckModel, changed: frozenset[int] | None) -> None:
        """The deck as it is now. *changed*: indexes of rows that differ from the last call; None: any may."""
        before, line = self._in_view(), self._cursor_line
        grown = self._state.show(deck, changed)
        if changed is None:
            self._sorted_at = self._steady()
        else:
            self._resort_in_time()
        self._arranged(line)
        if grown:
            self._lay_out()
        else:
            self._repaint(before, changed or ())

    def _resort_in_time(self) -> None:
        now = self._steady()
        if self._state.order.pending and now - max(self._moved_at, self._sorted_at) >= RESORT_S:
            self._sorted_at = now
            self._state.resort()

    def _tick(self) -> None:
        """What time alone changes, in the lines that are seen."""
        if not self.screen.is_current:
            return
        before, line = self._in_view(), self._cursor_line
        if self._state.order.pending:
            self._resort_in_time()
            self._arranged(line)
        rows = self._state.deck.rows
        self._repaint(before, [index for index in self._in_view() if rows[index].state in (*ACTIVE, "backoff")])

    # -- where things are ---------------------------------------------------------------------------------------------

    @property
    def _rows_seen(self) -> int:
        return max(0, self.size.height - HEADER)

    @property
    def _line_width(self) -> int:
        """Without the scrollbar, whose place is kept free."""
        return self.scrollable_content_region.width

    @property
    def _cursor_line(self) -> int:
        """Lines from the top of the view to the cursor; while its row is away, to where it was."""
        return self._state.place - self.scroll_offset.y if self._away is None else self._away

    def _in_view(self) -> list[int]:
        top = self.scroll_offset.y
        return self._state.order.shown[top : top + self._rows_seen]

    def _arranged(self, line: int, *, asked: bool = False) -> None:
        """Lines have moved: keep the cursor, which was on *line* of the view, before the user's eyes. Who looks at the
        top goes on looking at it, unless he has *asked* for the change."""
        length = len(self._state.order.shown) + HEADER
        if self.virtual_size.height != length:
            self.virtual_size = Size(self._line_width, length)
            self._redraw_header()
        back, self._away = self._away is not None, None
        if self._state.cursor is None:
            self._away = line
        elif 0 <= line < self._rows_seen and (back or self.scroll_offset.y > 0):
            self._scroll_top(self._state.place - line)
        seen = 0 <= line < self._rows_seen  # else the user has scrolled away from it
        if asked or back or (seen and self.scroll_offset.y > 0):
            self._bring_in()
        self._tell()

    def _bring_in(self) -> None:
        """Scroll as far as needed to see the cursor."""
        place, top, seen = self._state.place, self.scroll_offset.y, self._rows_seen
        if place < top:
            self._scroll_top(place)
        elif seen and place >= top + seen:
            self._scroll_top(place - seen + 1)

    def _scroll_top(self, place: int) -> None:
        self.scroll_to(y=place, animate=False, force=True)

    def on_focus(self) -> None:
        self._redraw(self._state.place)

    def on_blur(self) -> None:
        self._redraw(self._state.place)

    def on_resize(self) -> None:
        self.virtual_size = Size(self._line_width, len(self._state.order.shown) + HEADER)
        self._lay_out()
        self._bring_in()

    def _lay_out(self) -> None:
        columns = chosen(self._chosen, self._line_width, slurm=self._state.deck.on_slurm)
        self._lines.lay_out(columns, self._line_width)
        self.refresh()

    # -- lines --------------------------------------------------------------------------------------------------------

    def _repaint(self, before: Sequence[int], changed: Collection[int]) -> None:
        """Only the lines of the view that are other ones now, or whose row has changed."""
        after = self._in_view()
        if not after or not before:
            self.refresh()
            return
        for y in range(max(len(before), len(after))):
            old = before[y] if y < len(before) else None
            new = after[y] if y < len(after) else None
            if old != new or new in changed:
                self.refresh(Region(0, y + HEADER, self.size.width, 1))

    def _redraw_header(self) -> None:
        self.refresh(Region(0, 0, self.size.width, HEADER))

    def _redraw(self, place: int) -> None:
        y = place - self.scroll_offset.y
        if 0 <= y < self._rows_seen:
            self.refresh(Region(0, y + HEADER, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        width, paint = self._line_width, self._painted()
        if y < HEADER:
            return self._lines.header(width, paint)
        place = y - HEADER + self.scroll_offset.y
        if place >= len(self._state.order.shown):
            return self._lines.empty(y - HEADER, width, paint)
        return self._lines.row(place, width, paint, focused=self.has_focus)

    def _painted(self) -> Paint:
        if self._paint is None:
            self._paint = Paint(self.get_component_rich_style, self.rich_style)
        return self._paint

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._paint = None
