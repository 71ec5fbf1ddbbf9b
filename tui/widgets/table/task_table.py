"""The deck's tasks, a line each, any number of them: what keys and the mouse do to them, and what is posted of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ....engine.errors import UsageError
from ....engine.protocol.states import ACTIVE
from ...drawing.filtering import parse
from ...messages import OpenTask
from ...model import DeckModel
from ..columns import GUTTER, chosen, known
from .order import DESCENDING_FIRST, TableState
from .paint import COMPONENTS, Paint, TableLines

HEADER = 1
"""Lines above the first task."""
RESORT_S = 1.0
"""Between two resorts, and since the user last moved."""


JUMP_S = 1.0
"""A key that comes so soon after the cursor has jumped was on its way before."""


class TaskTable(ScrollView, can_focus=True, inherit_bindings=False):
    """Give it the deck with `show`; cursor and marks are on tasks, not on lines. Draws only what differs."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS.values())
    ALLOW_SELECT = False
    DEFAULT_CSS = "TaskTable { overflow-x: hidden; overflow-y: auto; scrollbar-gutter: stable; }"
    BINDINGS: ClassVar[list[BindingType]] = [("enter", "open", "details")]

    class CursorMoved(Message):
        """The cursor is on another task, or on none."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TaskTable.CursorMoved)

    @dataclass
    class Filtered(Message):
        """Another filter holds; "": none."""

        text: str

    def __init__(
        self,
        columns: Sequence[str],
        *,
        now: Callable[[], float],
        steady: Callable[[], float],
        tick_s: float,
    ) -> None:
        """*columns*: ids of `columns.COLUMNS`; none: what suits the width. *now*: seconds since the epoch. *tick_s*:
        between two looks at what time alone changes."""
        super().__init__()
        self._chosen, self.unknown_columns = known(columns)
        self._state = TableState(self._chosen)
        self._now, self._steady, self._tick_s = now, steady, tick_s
        self._lines = TableLines(self._state, now)
        self._moved_at = self._sorted_at = self._jumped_at = float("-inf")
        self._told = ("", 0)
        """What the last messages said of the cursor and the marks."""
        self._paint: Paint | None = None
        self._away: int | None = None
        """Where in the view the cursor's row was that is not there now, but may come back."""

    def on_mount(self) -> None:
        self.set_interval(self._tick_s, self._tick)

    # -- what others look at ------------------------------------------------------------------------------------------

    @property
    def cursor_name(self) -> str:
        """Name of the task under the cursor; "" without one."""
        return self._state.name

    @property
    def has_jumped(self) -> bool:
        """The cursor has just come to another task by itself: whoever presses a key now may mean the one before."""
        return self._steady() - self._jumped_at < JUMP_S

    @property
    def marked(self) -> frozenset[str]:
        """Names; also of tasks that are not shown now, or not there."""
        return self._state.marked

    @property
    def shown(self) -> Sequence[str]:
        """Names in the order of the lines."""
        rows = self._state.deck.rows
        return [rows[index].name for index in self._state.order.shown]

    @property
    def filter_text(self) -> str:
        return self._state.order.filter.text

    @property
    def sorted_by(self) -> tuple[str, bool]:
        """The sort's column ("file": as in the task file), and whether the greatest comes first."""
        return self._state.order.column, self._state.order.descending

    def as_text(self) -> str:
        """What is shown, tab-separated, with titles."""
        return self._lines.as_text()

    # -- filter and sort ----------------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> str:
        """Show what *text* means. Returns "", or one line that says why it means nothing: then the old filter stays."""
        try:
            wanted = parse(text)
        except UsageError as error:
            return str(error)
        if wanted.text != self.filter_text:
            self._change(lambda: self._state.set_filter(wanted))
            self.post_message(self.Filtered(wanted.text))
        return ""

    def begin_filter(self) -> None:
        """A filter is going to be typed: until `end_filter` the cursor goes back to its task whenever that is shown."""
        self._state.home = self._state.name

    def end_filter(self) -> None:
        """The filter is as the user wants it."""
        self._state.home = ""

    def sort_by(self, column: str, *, descending: bool | None = None) -> None:
        """By "file" or what a column sorts by. *descending* None: as suits the column; the other way round,
        where it is sorted by that already."""
        now, greatest_first = self.sorted_by
        if descending is None:
            descending = not greatest_first if now == column else column in DESCENDING_FIRST
        self._sorted_at = self._steady()
        self._change(lambda: self._sort(column, descending))

    def _sort(self, column: str, descending: bool) -> None:
        """Whoever sorts wants to see what comes first."""
        self._state.set_sort(column, descending=descending)
        self._state.move_to(0)

    def next_sort(self) -> str:
        """By the next column that is shown, after the last one as in the file. Returns which."""
        column = self._lines.sort_after(self.sorted_by[0])
        self.sort_by(column, descending=column in DESCENDING_FIRST)
        return column

    def reverse(self) -> None:
        """The other way round."""
        self.sort_by(self.sorted_by[0])

    def _change(self, change: Callable[[], None]) -> None:
        line = self._cursor_line
        change()
        self._arranged(line, asked=True)
        self.refresh()

    # -- cursor and marks ---------------------------------------------------------------------------------------------

    def move(self, action_id: str) -> None:
        """down, up, top, bottom, page_down, page_up."""
        page = max(1, self._rows_seen - 1)
        self._move(lambda: self._state.move(action_id, page))

    def move_to(self, place: int) -> None:
        """The cursor to that line, counted from 0 over all that is shown, or as near as there is one."""
        self._move(lambda: self._state.move_to(place))

    def _move(self, move: Callable[[], None]) -> None:
        old = self._state.place
        self._jumped_at = float("-inf")
        self._moved_at = self._steady()
        move()
        self._redraw(old)
        self._redraw(self._state.place)
        self._bring_in()
        self._tell()

    def go_to(self, name: str) -> None:
        """The cursor to that task, where it is shown."""
        index = self._state.deck.index_of.get(name)
        place = None if index is None else self._state.order.place_of(index)
        if place is not None:
            self.move_to(place)

    def mark(self) -> None:
        """Mark the task under the cursor, or take its mark away, and go to the next."""
        if self._state.row is not None:
            self._state.toggle((self._state.name,))
            self.move("down")

    def mark_all(self) -> None:
        """Mark all that are shown; where they are take the marks away."""
        self._state.toggle(self.shown)
        self.refresh()
        self._tell()

    def unmark(self, names: Collection[str]) -> None:
        """Take their marks away."""
        if not self._state.marked.isdisjoint(names):
            self._state.marked -= frozenset(names)
            self.refresh()
            self._tell()

    def clear(self) -> None:
        """Take away the marks; without any, the filter."""
        if self._state.marked:
            self.unmark(self._state.marked)
        else:
            self.set_filter("")

    def action_open(self) -> None:
        if self.cursor_name:
            self.post_message(OpenTask(self.cursor_name))

    def _tell(self) -> None:
        name, marks = self._told
        self._told = (self.cursor_name, len(self._state.marked))
        if name != self._told[0]:
            self.post_message(self.CursorMoved())
        if marks != self._told[1]:
            self._redraw_header()

    # -- mouse --------------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        if event.y < HEADER:
            self._click_title(event.x)
            return
        place = event.y - HEADER + self.scroll_offset.y
        if place >= len(self._state.order.shown):
            return
        if event.shift:
            self._mark_up_to(place)
        elif event.ctrl or event.x < GUTTER:
            self._state.toggle((self._state.row_at(place).name,))
            self._redraw(place)
        self.move_to(place)
        if event.chain == 2 and not (event.ctrl or event.shift):
            self.action_open()

    def _click_title(self, x: int) -> None:
        for position in self._lines.places:
            if position.x <= x <= position.x + position.width and position.column.sorts:
                self.sort_by(position.column.sorts)
                return

    def _mark_up_to(self, place: int) -> None:
        first, last = sorted((self._state.place, place))
        self._state.marked |= set(self.shown[first : last + 1])
        self.refresh()

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
        before = self._told[0]
        self._tell()
        if not asked and before and self.cursor_name not in ("", before):
            self._jumped_at = self._steady()

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
