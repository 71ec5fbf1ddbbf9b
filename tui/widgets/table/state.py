"""What the task table knows beside its lines: rows in their order, the cursor's task, marks. Pure; no Textual."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....engine.protocol.wire import TaskRow
from ...drawing.filtering import Filter
from ...model import DeckModel
from .contents import Contents
from .order import Order


class TableState:
    """The cursor is on a task: it goes where its task goes, and to the neighbour when that is no longer shown."""

    def __init__(self, columns: Sequence[str] = ()) -> None:
        self._columns = columns
        self.deck = DeckModel()
        self.order = Order()
        self.contents = Contents()
        self.marked: frozenset[str] = frozenset()
        """Names; also of tasks that are not shown now, or not there."""
        self.cursor: int | None = None
        """Index of the task under it."""
        self.place = 0
        """Where the cursor is, or was last."""
        self._wanted = ""
        """Name of the task under the cursor, also while its row has not come."""
        self._to_end = False
        """The cursor goes on to the last task while rows are still coming."""
        self.home = ""
        """Name of the task that the cursor was on before a filter was typed: half of a filter does not move it away."""

    @property
    def row(self) -> TaskRow | None:
        """Under the cursor."""
        return None if self.cursor is None else self.deck.rows.get(self.cursor)

    @property
    def name(self) -> str:
        row = self.row
        return row.name if row is not None else ""

    def row_at(self, place: int) -> TaskRow:
        return self.deck.rows[self.order.shown[place]]

    def show(self, deck: DeckModel, changed: Collection[int] | None) -> bool:
        """Take in what has changed; None: everything may have. Returns whether contents have become wider."""
        uuids = {gpu.index: gpu.uuid for gpu in deck.gpus}
        if changed is None or deck is not self.deck:
            self.deck = deck
            self.contents.reset(deck.rows.values(), self._columns)
            self.order.reset(deck.rows, uuids)
            grown = True
        else:
            rows = [row for index in changed if (row := deck.rows.get(index)) is not None]
            grown = self.contents.update(rows, self._columns)
            self.order.look_at(deck.rows, uuids)
            self.order.update(changed)
        self._follow()
        return grown

    def set_filter(self, wanted: Filter) -> None:
        self.order.set_filter(wanted)
        self._wanted = self.home or self._wanted
        self._follow()

    def set_sort(self, column: str, *, descending: bool) -> None:
        self.order.set_sort(column, descending=descending)
        self._follow()

    def resort(self) -> bool:
        """Returns whether anything has moved."""
        moved = self.order.resort()
        self._follow()
        return moved

    def move(self, way: str, page: int) -> None:
        """down, up, top, bottom, page_down, page_up. *page*: so many lines."""
        steps = {"down": 1, "up": -1, "page_down": page, "page_up": -page, "top": -self.place}
        if way == "bottom":
            self.move_to_end()
        else:
            self.move_to(self.place + steps[way])

    def move_to(self, place: int) -> None:
        """The cursor to that line, or as near as there is one."""
        self._to_end = False
        self.home = ""
        self._move_to(place)

    def move_to_end(self) -> None:
        """The cursor to the last line, also of rows that are still to come."""
        self._to_end = not self.deck.whole
        self.home = ""
        self._move_to(len(self.order.shown))

    def toggle(self, names: Collection[str]) -> None:
        """Mark them; where all of them are marked take the marks away."""
        wanted = frozenset(names)
        self.marked = self.marked - wanted if wanted <= self.marked else self.marked | wanted

    def _move_to(self, place: int) -> None:
        if self.order.shown:
            self._put(max(0, min(place, len(self.order.shown) - 1)))

    def _put(self, place: int) -> None:
        self.place = place
        self.cursor = self.order.shown[place]
        self._wanted = self.deck.rows[self.cursor].name

    def _follow(self) -> None:
        if self._to_end:
            self.move_to_end()
            return
        index = self.deck.index_of.get(self._wanted)
        place = None if index is None else self.order.place_of(index)
        if place is not None:
            self._put(place)
        elif not self.order.shown or (self._wanted and index is None and not self.deck.whole):
            self.cursor = None  # its row may still come
        else:
            row = None if index is None else self.deck.rows.get(index)
            self._move_to(self.place if row is None else self.order.place_for(row))
