"""Cells in their places, coloured: a line of the task table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ...drawing.format import cut, fit, width_of
from ...drawing.view import Cell, Piece
from ..columns import GUTTER, PlacedColumn

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
    for place, cell in zip(places, cells, strict=True):
        at = _put(segments, at, place, cell, paint, ground)
    if at < width:
        segments.append(Segment(" " * (width - at), paint.style("plain", ground)))
    return Strip(segments).adjust_cell_length(width, paint.style("plain", ground))


def _put(segments: list[Segment], at: int, place: PlacedColumn, cell: Cell, paint: Paint, ground: str) -> int:
    taken = sum(width_of(text) for text, _ in cell)
    if taken > place.width:
        cell = _clipped(cell, place.width)
        taken = sum(width_of(text) for text, _ in cell)
    blank = place.x - at + (max(0, place.width - taken) if place.column.right else 0)
    if blank > 0:
        segments.append(Segment(" " * blank, paint.style("plain", ground)))
        at += blank
    for text, tone in cell:
        if text:
            segments.append(Segment(text, paint.style(tone, ground)))
    return at + taken


def _clipped(cell: Cell, width: int) -> Cell:
    pieces: list[Piece] = []
    for text, tone in cell:
        text = cut(text, width)
        pieces.append((text, tone))
        width -= width_of(text)
    return tuple(pieces)


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
