"""Values that a running task's metric has had since the screen was opened. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from ....engine.protocol.states import ACTIVE
from ....engine.protocol.wire import TaskRow
from ...drawing.view import SPARK_CELLS, metric

KEPT = 2000
"""Of so many tasks; those that have told nothing for the longest are forgotten first."""


class History:
    def __init__(self) -> None:
        self._seen: OrderedDict[int, tuple[tuple[str, int, str], deque[float]]] = OrderedDict()

    def note(self, rows: Iterable[TaskRow]) -> None:
        """Rows as they are now; a new attempt begins anew."""
        for row in rows:
            found = metric(row) if row.metrics and row.state in ACTIVE else None
            if found is not None:
                self._add(row.index, (row.name, row.attempt, found[0]), found[1])
        while len(self._seen) > KEPT:
            self._seen.popitem(last=False)

    def _add(self, index: int, whose: tuple[str, int, str], value: float) -> None:
        known = self._seen.pop(index, None)
        values = known[1] if known is not None and known[0] == whose else deque[float](maxlen=SPARK_CELLS)
        if not values or values[-1] != value:
            values.append(value)
        self._seen[index] = (whose, values)

    def of(self, row: TaskRow) -> Sequence[float]:
        known = self._seen.get(row.index)
        return tuple(known[1]) if known is not None and known[0][:2] == (row.name, row.attempt) else ()
