"""The lines of the task table: made when they are seen, and kept while nothing that is in them changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual.strip import Strip

from ....engine.protocol.states import ACTIVE
from ...drawing.format import clean, count, cut
from ...drawing.view import Moment, cell, plain_text
from ..columns import COLUMNS, SORTS, PlacedColumn, lay_out
from .paint import Paint, header_line, hidden_sort, row_line
from .state import TableState

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
            return f'no task matches "{clean(self._state.order.filter.text)}": esc clears'
        return "the deck has no tasks" if deck.whole else ""
