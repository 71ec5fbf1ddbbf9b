"""Cells in their places, coloured: a line of the task table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ....engine.protocol.states import ACTIVE
from ...drawing.filtering import misspelt
from ...drawing.format import clean, clipped, count, cut, fit, length, width_of
from ...drawing.view import Cell, Moment, cell, plain_text
from ..columns import COLUMNS, GUTTER, SORTS, PlacedColumn, lay_out
from .order import TableState

CURSOR, MARK = "▌", "◆"
COMPONENTS: Mapping[str, str] = {
    name: f"tasktable--{name}"
    for name in (
        "strong", "muted", "faint", "running", "good", "bad", "warn", "rest", "metric",
        "header", "sorted", "cursor", "blurred", "marked", "mark", "filter",
    )
}  # fmt: skip
"""Component classes by what they are for."""


class Paint:
    """Styles of one theme and focus. Looked up once: Textual computes component styles anew after every refresh."""

    def __init__(self, style_of: Callable[[str], Style], base: Style) -> None:
        self._style_of = style_of
        self._base = base
        self._known: dict[tuple[str, str], Style] = {}

    def style(self, what: str, ground: str = "") -> Style:
        """Of text of this tone on this ground: "", "cursor", "blurred", "marked", "header"."""
        known = self._known.get((what, ground))
        if known is None:
            known = self._known[(what, ground)] = self._mixed(what, ground)
        return known

    def _mixed(self, what: str, ground: str) -> Style:
        under = self._style_of(COMPONENTS[ground]) if ground else self._base
        if what not in COMPONENTS or under.reverse:
            return under  # colours on a reversed ground would be patches
        if what == "muted" and ground == "cursor":
            return under  # grey on a ground of colour is hard to read
        over = self._style_of(COMPONENTS[what])
        return under + Style(color=over.color, bold=over.bold or None, dim=over.dim or None, italic=over.italic or None)


def row_line(
    places: Sequence[PlacedColumn], cells: Sequence[Cell], width: int, paint: Paint, ground: str, *, marked: bool
) -> Strip:
    """*ground*: what lies under the row; a marked row tells it by its glyph as well."""
    at_cursor = ground in ("cursor", "blurred")
    glyph = MARK if marked else CURSOR if at_cursor else " "
    segments = [Segment(glyph + " " * (GUTTER - 1), paint.style("mark", ground))]
    at = GUTTER
    for place, content in zip(places, cells, strict=True):
        at = _put(segments, at, place, content, paint, ground)
    if at < width:
        segments.append(Segment(" " * (width - at), paint.style("plain", ground)))
    return Strip(segments).adjust_cell_length(width, paint.style("plain", ground))


def _put(segments: list[Segment], at: int, place: PlacedColumn, cell: Cell, paint: Paint, ground: str) -> int:
    cell = clipped(cell, place.width)
    taken = length(cell)
    blank = place.x - at + (max(0, place.width - taken) if place.column.right else 0)
    if blank > 0:
        segments.append(Segment(" " * blank, paint.style("plain", ground)))
        at += blank
    for text, tone in cell:
        if text:
            segments.append(Segment(text, paint.style(tone, ground)))
    return at + taken


def hidden_sort(places: Sequence[PlacedColumn], sorted_by: str, *, descending: bool) -> str:
    """What the table is sorted by, where no title is there to tell it; "" where one is, or as in the file."""
    if any(_tells_sort(place, sorted_by) for place in places) or (sorted_by == "file" and not descending):
        return ""
    return f"{_arrow(descending=descending)} {sorted_by}"


def _tells_sort(place: PlacedColumn, sorted_by: str) -> bool:
    column = place.column
    return bool(sorted_by) and column.sorts == sorted_by and place.width > width_of(column.title or sorted_by)


def _arrow(*, descending: bool) -> str:
    return "▼" if descending else "▲"


def _title(place: PlacedColumn, arrow: str) -> str:
    """What stands over a column. One that has no title gets one while it is sorted by."""
    title = place.column.title or (place.column.sorts if arrow else "")
    apart = "" if place.column.right or width_of(title) + 2 > place.width else " "
    return arrow + title if place.column.right else f"{title}{apart}{arrow}" if arrow else title


def header_line(
    places: Sequence[PlacedColumn], sorted_by: str, *, descending: bool, note: str, width: int, paint: Paint
) -> Strip:
    """Titles, an arrow at what is sorted by, a note at the end, over titles that are not cut but left out."""
    taken = min(width, width_of(note) + 2) if note else 0
    segments = [Segment(" " * GUTTER, paint.style("plain", "header"))]
    at = GUTTER
    for place in places:
        segments.append(Segment(" " * (place.x - at), paint.style("plain", "header")))
        by = _tells_sort(place, sorted_by)
        text = fit(_title(place, _arrow(descending=descending) if by else ""), place.width, right=place.column.right)
        if place.x + width_of(text.rstrip()) > width - taken:
            text = " " * place.width
        segments.append(Segment(text, paint.style("sorted" if by else "plain", "header")))
        at = place.x + place.width
    line = Strip(segments).adjust_cell_length(width, paint.style("plain", "header"))
    if not note:
        return line
    end = Segment(fit(f" {note} ", taken), paint.style("filter", "header"))
    return Strip.join([line.crop(0, width - taken), Strip([end])])


_KEPT = 1000


class TableLines:
    """*now*: seconds since the epoch."""

    def __init__(self, state: TableState, now: Callable[[], float]) -> None:
        self._state, self._now = state, now
        self.places: list[PlacedColumn] = []
        self._known: dict[int, tuple[object, Strip]] = {}
        """By a row's index: what its line was made of, and the line."""

    def lay_out(self, columns: Sequence[str], width: int) -> None:
        """Put the columns into that width anew."""
        self.places = lay_out(columns, width, self._state.contents.cells)
        self._known.clear()

    def header(self, width: int, paint: Paint) -> Strip:
        """Titles, marks and filter; no titles over nothing."""
        order = self._state.order
        places = self.places if self._state.deck.rows else ()
        return header_line(
            places, order.column, descending=order.descending, note=self._note(width), width=width, paint=paint
        )

    def _note(self, width: int) -> str:
        order, marked, rows = self._state.order, self._state.marked, self._state.deck.rows
        parts = [hidden] if (hidden := hidden_sort(self.places, order.column, descending=order.descending)) else []
        if marked:
            seen = sum(rows[index].name in marked for index in order.shown) if order.filter.text else len(marked)
            hidden_marks = f", {count(len(marked) - seen)} not shown" if seen < len(marked) else ""
            parts.append(f"{count(seen)} marked{hidden_marks}")
        if order.filter.text:
            text = cut(clean(order.filter.text), max(10, width // 3))
            parts.append(f"/{text}  {count(len(order.shown))} of {count(len(self._state.deck.rows))}")
        return "  ".join(parts)

    def row(self, place: int, width: int, paint: Paint, *, focused: bool) -> Strip:
        """The line of the row at that place of the order."""
        row = self._state.row_at(place)
        marked = row.name in self._state.marked
        at_cursor = place == self._state.place and self._state.cursor is not None
        ground = ("cursor" if focused else "blurred") if at_cursor else "marked" if marked else ""
        now_s = self._now()
        second = int(now_s) if row.state in ACTIVE or row.state == "backoff" else 0
        made_of = (row, ground, marked, second, width, paint)
        known = self._known.get(row.index)
        if known is not None and known[0] == made_of:
            return known[1]
        moment = Moment(now_s, sparks=self._state.contents.sparks)
        cells = [cell(each.column.id, row, each.width, moment) for each in self.places]
        line = row_line(self.places, cells, width, paint, ground, marked=marked)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[row.index] = (made_of, line)
        return line

    def as_text(self) -> str:
        """All rows in the table's order, tab-separated, with titles."""
        columns = [place.column.id for place in self.places if place.column.id != "flags"]
        rows, now_s = self._state.deck.rows, self._now()
        lines = ["\t".join(COLUMNS[column].title or column for column in columns)]
        lines += ["\t".join(plain_text(each, rows[at], now_s) for each in columns) for at in self._state.order.shown]
        return "\n".join(lines) + "\n"

    def sort_after(self, column: str) -> str:
        """By what to sort next: the columns that are shown, after the last one as in the file."""
        seen = {"file", *(place.column.sorts for place in self.places)}
        sorts = [sort for sort in SORTS if sort in seen]
        return sorts[(sorts.index(column) + 1) % len(sorts)] if column in sorts else sorts[0]

    def empty(self, y: int, width: int, paint: Paint) -> Strip:
        """The *y*-th line below the titles where there is no row: the second one tells why, if there is none at all."""
        text = self._why_empty() if y == 1 and not self._state.order.shown else ""
        segment = Segment(cut(f"  {text}", width), paint.style("muted"))
        return Strip([segment]).adjust_cell_length(width, paint.style("plain"))

    def _why_empty(self) -> str:
        deck = self._state.deck
        if deck.rows:
            text = self._state.order.filter.text
            hint = f"; {clean(found)}" if (found := misspelt(text)) else ":"
            return f'no task matches "{clean(text)}"{hint} esc clears'
        return "the deck has no tasks" if deck.whole else ""
