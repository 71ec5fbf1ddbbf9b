"""Which tasks the table shows, and in which order. Pure; rows are known by their index, which is also their file order.

Places are kept by the sort keys as they were when last sorted: a row whose key has changed since is *pending* and stays
where it is until `resort`. What the filter lets in or out comes and goes at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ....engine.protocol.states import ACTIVE, YET_TO_START, shown_state
from ....engine.protocol.wire import TaskRow
from ...drawing.filtering import EVERYTHING, Filter, Uuids
from ...drawing.view import look, metric
from ...model import DeckModel
from ..columns import Contents

Key = Any
"""Keys of one sort compare with each other; None: the row has nothing to be sorted by, and comes last both ways."""

DESCENDING_FIRST = frozenset({"time", "progress", "priority", "attempt"})
"""Where the greatest is what one looks for."""
_DIGITS = re.compile(r"([0-9]+(?:\.[0-9]+)?)")


def natural(text: str) -> tuple[str | float, ...]:
    """Numbers in texts sort by their value: run-2 before run-10, 0.375 before 0.5."""
    parts: list[str | float] = list(_DIGITS.split(text.lower()))
    parts[1::2] = [float(part) for part in parts[1::2]]
    return tuple(parts)


def _metric_key(row: TaskRow) -> Key:
    found = None if row.state in YET_TO_START else metric(row)
    return None if found is None or math.isnan(found[1]) else found[1]


def _time_key(row: TaskRow) -> Key:
    """Those that run after all that have ended, so that keys do not change while time passes."""
    if row.state in ACTIVE:
        return None if row.started is None else (1, -row.started)
    return None if row.duration_s is None or row.state in YET_TO_START else (0, row.duration_s)


_KEYS: Mapping[str, Callable[[TaskRow], Key]] = {
    "state": lambda row: look(shown_state(row)).rank,
    "name": lambda row: (natural(row.name), row.name),
    "time": _time_key,
    "eta": lambda row: row.eta_s if row.state in ACTIVE else None,
    "gpu": lambda row: None if row.state in YET_TO_START else row.gpus or None,
    "node": lambda row: tuple(map(natural, row.nodes)) or None,
    "job": lambda row: natural(row.job) if row.job else None,
    "metric": _metric_key,
    "progress": lambda row: row.progress if row.state in ACTIVE else None,
    "attempt": lambda row: row.attempt or None,
    "round": lambda row: row.round,
    "priority": lambda row: row.priority,
    "entry": lambda row: natural(row.entry) if row.entry else None,
    "group": lambda row: natural(row.group) if row.group else None,
    "file": lambda row: row.index,
}


def sort_key(column: str, row: TaskRow) -> Key:
    """By "file" or what a column sorts by."""
    return _KEYS[column](row)


def _sorted(keys: Mapping[int, Key], *, descending: bool) -> list[int]:
    present = sorted(index for index, key in keys.items() if key is not None)
    present.sort(key=keys.__getitem__, reverse=descending)  # stable both ways
    return present + sorted(index for index, key in keys.items() if key is None)


class Order:
    """Indexes of the rows that are shown. Only its methods change it."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        self.filter: Filter = EVERYTHING
        self.column = "file"
        self.descending = False
        self._rows: Mapping[int, TaskRow] = {}
        self._uuids: Uuids = {}
        self._keys: dict[int, Key] = {}
        """Of what is shown."""
        self._pending: set[int] = set()

    @property
    def pending(self) -> bool:
        """A `resort` would change something, or could."""
        return bool(self._pending)

    def reset(self, rows: Mapping[int, TaskRow], uuids: Uuids) -> None:
        """Other rows."""
        self._rows, self._uuids = rows, uuids
        self._rebuild()

    def look_at(self, rows: Mapping[int, TaskRow], uuids: Uuids) -> None:
        """The same rows, but for those that `update` is told of next."""
        other_gpus = self._uuids != uuids and bool(self.filter.tests)
        self._rows, self._uuids = rows, uuids
        if other_gpus:
            self._rebuild()

    def set_filter(self, wanted: Filter) -> None:
        self.filter = wanted
        self._rebuild()

    def set_sort(self, column: str, *, descending: bool) -> None:
        self.column, self.descending = column, descending
        self._rebuild()

    def _rebuild(self) -> None:
        self._pending.clear()
        matches, uuids = self.filter.matches, self._uuids
        self._keys = {row.index: sort_key(self.column, row) for row in self._rows.values() if matches(row, uuids)}
        self._arrange()

    def _arrange(self) -> None:
        self.shown = _sorted(self._keys, descending=self.descending)

    def update(self, changed: Collection[int]) -> None:
        """Judge these rows again: they come or go at once; what only sorts otherwise now is pending."""
        came: dict[int, Key] = {}
        went: list[int] = []
        for index in changed:
            row = self._rows.get(index)
            if row is not None and self.filter.matches(row, self._uuids):
                self._judge(index, sort_key(self.column, row), came)
            elif index in self._keys:
                went.append(index)
        for index in went:
            del self._keys[index]
            self._pending.discard(index)
        if came or went:
            self._keys.update(came)
            self._arrange()

    def _judge(self, index: int, key: Key, came: dict[int, Key]) -> None:
        if index not in self._keys:
            came[index] = key
        elif self._keys[index] != key:
            self._pending.add(index)
        else:
            self._pending.discard(index)

    def resort(self) -> None:
        """Bring pending rows to their places."""
        self._keys.update((index, sort_key(self.column, self._rows[index])) for index in self._pending)
        self._pending.clear()
        self._arrange()

    def place_of(self, index: int) -> int | None:
        """Where it stands; None: it is not shown."""
        return self.shown.index(index) if index in self._keys else None

    def place_for(self, row: TaskRow) -> int:
        """Where a row that is not shown would stand: the place of its neighbour after it."""
        keys = {**self._keys, row.index: sort_key(self.column, row)}
        return _sorted(keys, descending=self.descending).index(row.index)


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
        """Name of the task under the cursor, also while it is not shown."""
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

    def resort(self) -> None:
        self.order.resort()
        self._follow()

    def move(self, way: str, page: int) -> None:
        """down, up, top, bottom, page_down, page_up. *page*: so many lines."""
        steps = {"down": 1, "up": -1, "page_down": page, "page_up": -page, "top": -self.place}
        self.move_to(self.place + steps[way] if way in steps else len(self.order.shown))

    def move_to(self, place: int) -> None:
        """The cursor to that line, or as near as there is one."""
        self.home = ""
        self._move_to(place)

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
        index = self.deck.index_of.get(self._wanted)
        place = None if index is None else self.order.place_of(index)
        if place is not None:
            self._put(place)
        elif not self.order.shown:
            self.cursor = None
        else:
            row = None if index is None else self.deck.rows.get(index)
            self._move_to(self.place if row is None else self.order.place_for(row))
