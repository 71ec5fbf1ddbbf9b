"""Which tasks the table shows, and in which order. Pure; rows are known by their index, which is also their file order.

Places are kept by the sort keys as they were when last sorted: a row whose key has changed since is *pending* and stays
where it is until `resort`. What the filter lets in or out comes and goes at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ....engine.protocol.states import ACTIVE, shown_state
from ....engine.protocol.wire import TaskRow
from ...drawing.filtering import EVERYTHING, Filter, Uuids
from ...drawing.view import look, metric

Key = Any
"""Keys of one sort compare with each other; None: the row has nothing to be sorted by, and comes last both ways."""

DESCENDING_FIRST = frozenset({"time", "progress", "priority", "attempt"})
"""Where the greatest is what one looks for."""
_BULK = 200
"""From so many rows on it is cheaper to sort all."""
_DIGITS = re.compile(r"([0-9]+(?:\.[0-9]+)?)")


def natural(text: str) -> tuple[str | float, ...]:
    """Numbers in texts sort by their value: run-2 before run-10, 0.375 before 0.5."""
    parts: list[str | float] = list(_DIGITS.split(text.lower()))
    parts[1::2] = [float(part) for part in parts[1::2]]
    return tuple(parts)


def sort_key(column: str, row: TaskRow) -> Key:
    match column:
        case "state":
            return look(shown_state(row)).rank
        case "name":
            return natural(row.name), row.name
        case "time":
            return _time_key(row)
        case "eta":
            return row.eta_s if row.state in ACTIVE else None
        case "gpu":
            return row.gpus or None
        case "node":
            return tuple(map(natural, row.nodes)) or None
        case "job":
            return natural(row.job) if row.job else None
        case "metric":
            found = metric(row)
            return None if found is None or math.isnan(found[1]) else found[1]
        case "progress":
            return row.progress if row.state in ACTIVE else None
        case "attempt":
            return row.attempt or None
        case "round" | "priority":
            return getattr(row, column)
        case "entry" | "group":
            return natural(getattr(row, column)) if getattr(row, column) else None
        case _:
            return row.index


def _time_key(row: TaskRow) -> Key:
    """Those that run after all that have ended, so that keys do not change while time passes."""
    if row.state in ACTIVE:
        return None if row.started is None else (1, -row.started)
    return None if row.duration_s is None else (0, row.duration_s)


def arranged(rows: Mapping[int, TaskRow], wanted: Filter, uuids: Uuids, column: str, *, descending: bool) -> list[int]:
    """What `Order` comes to, from scratch."""
    keys = {index: sort_key(column, row) for index, row in rows.items() if wanted.matches(row, uuids)}
    return _sorted(keys, descending=descending)


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

    def __contains__(self, index: int) -> bool:
        return index in self._keys

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
        rows, uuids = self._rows, self._uuids
        if self.filter.tests:
            matches = self.filter.matches
            found = [row for row in rows.values() if matches(row, uuids)]
        else:
            found = list(rows.values())
        if self.column == "file":
            self._keys = {row.index: row.index for row in found}
        else:
            self._keys = {row.index: sort_key(self.column, row) for row in found}
        self.shown = _sorted(self._keys, descending=self.descending)

    def update(self, changed: Collection[int]) -> bool:
        """Judge these rows again. Returns whether rows have come or gone; what only sorts otherwise now is pending."""
        came: dict[int, Key] = {}
        went: list[int] = []
        for index in changed:
            row = self._rows.get(index)
            fits = row is not None and self.filter.matches(row, self._uuids)
            if row is not None and fits:
                self._judge(index, sort_key(self.column, row), came)
            elif index in self._keys:
                went.append(index)
        if len(came) + len(went) > _BULK:
            self._replace(came, went)
        else:
            self._take_out(went)
            self._put_in(came)
        return bool(came or went)

    def _judge(self, index: int, key: Key, came: dict[int, Key]) -> None:
        if index not in self._keys:
            came[index] = key
        elif self._keys[index] != key:
            self._pending.add(index)
        else:
            self._pending.discard(index)

    def resort(self) -> bool:
        """Bring pending rows to their places. Returns whether anything has moved."""
        before = self.shown.copy()
        moved = {index: sort_key(self.column, self._rows[index]) for index in self._pending}
        self._pending.clear()
        if len(moved) > _BULK:
            self._replace(moved, ())
        else:
            self._take_out(moved)
            self._put_in(moved)
        return self.shown != before

    def _replace(self, came: Mapping[int, Key], went: Iterable[int]) -> None:
        for index in went:
            del self._keys[index]
            self._pending.discard(index)
        self._keys.update(came)
        self.shown = _sorted(self._keys, descending=self.descending)

    def _take_out(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            del self.shown[self._search(index, self._keys[index])]
            del self._keys[index]
            self._pending.discard(index)

    def _put_in(self, keys: Mapping[int, Key]) -> None:
        for index, key in keys.items():
            self.shown.insert(self._search(index, key), index)
            self._keys[index] = key

    def place_of(self, index: int) -> int | None:
        """Where it stands; None: it is not shown."""
        return self._search(index, self._keys[index]) if index in self._keys else None

    def place_for(self, row: TaskRow) -> int:
        """Where a row that is not shown would stand: the place of its neighbour after it."""
        return self._search(row.index, sort_key(self.column, row))

    def _search(self, index: int, key: Key) -> int:
        low, high = 0, len(self.shown)
        while low < high:
            middle = (low + high) // 2
            other = self.shown[middle]
            if self._before(self._keys[other], other, key, index):
                low = middle + 1
            else:
                high = middle
        return low

    def _before(self, one: Key, one_index: int, other: Key, other_index: int) -> bool:
        if one is None or other is None:
            return one_index < other_index if one is other else other is None
        if one == other:
            return one_index < other_index
        return bool(one > other) if self.descending else bool(one < other)
