"""How wide the contents of the table's columns are. Measured once over all rows, then only what has changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....engine.protocol.states import ACTIVE
from ....engine.protocol.wire import TaskRow
from ...drawing.format import NUMBER_CELLS, clean, width_of
from ...drawing.view import FLAGS, METRIC_NAME_CELLS, SPARK_CELLS, flags, gpu_text, node_text, own_text, rung_text

_MEASURED_OWN = ("entry", "group", "tags", "params")
_SPARK = 1 + SPARK_CELLS
_PREFIX_CELLS = 28
"""What `why` may put before a reason."""


class Contents:
    """Cells by the id of a column. They only grow until the rows are other ones: columns do not jump."""

    def __init__(self) -> None:
        self.cells: dict[str, int] = {}
        self.sparks = False
        """Some row's metric has had several values: their line needs room."""

    def reset(self, rows: Iterable[TaskRow], columns: Sequence[str]) -> None:
        self.cells = {}
        self.sparks = False
        self.update(rows, columns)

    def update(self, rows: Iterable[TaskRow], columns: Sequence[str]) -> bool:
        """Returns whether something has grown."""
        rows = list(rows)
        grown = self._make_room_for_sparks(rows)
        for column, least in measured(rows, columns).items():
            cells = least + (_SPARK if column == "metric" and least and self.sparks else 0)
            if cells > self.cells.get(column, -1):
                self.cells[column] = cells
                grown = True
        return grown

    def _make_room_for_sparks(self, rows: Iterable[TaskRow]) -> bool:
        if self.sparks or not any(len(row.curve) > 1 for row in rows):
            return False
        self.sparks = True
        self.cells["metric"] = self.cells.get("metric", 0) + _SPARK
        return True


def measured(rows: Sequence[TaskRow], columns: Sequence[str]) -> dict[str, int]:
    """0: the rows have nothing to say in that column. Looks at what differs, not at each row, wherever it can."""
    flagged = [found for row in rows if (found := flags(row))]
    cells = {
        "name": _widest([row.name for row in rows]),
        "flags": max(map(len, flagged), default=0),
        "progress": int(any(row.progress is not None for row in rows)),
        "round": int(any(row.round for row in rows)),
        "priority": max((len(str(priority)) for priority in {row.priority for row in rows} if priority), default=0),
        "attempt": int(any(row.attempt > 1 for row in rows)),
        "eta": max(map(_eta_cells, rows), default=0),
        "gpu": _gpu_cells(rows),
        "node": max((len(node_text(row)) for row in {row.nodes: row for row in rows if row.nodes}.values()), default=0),
        "job": max((len(row.job) for row in rows if row.job), default=0),
        "metric": _metric_cells(rows),
        "reason": _reason_cells(rows, flagged),
    }
    for column in _MEASURED_OWN:
        if column in columns:
            cells[column] = _widest([own_text(column, row) for row in rows])
    return cells


def _widest(texts: Sequence[str]) -> int:
    if "".join(texts).isascii():  # one look at all of them instead of one at each
        return max(map(len, texts), default=0)
    return max(width_of(clean(text)) for text in texts)


def _eta_cells(row: TaskRow) -> int:
    if row.state == "backoff":
        return len("in 3h10m")
    known = row.state in ACTIVE and (row.eta_s is not None or row.expected_s is not None)
    return len("~3h10m") if known else 0


def _gpu_cells(rows: Sequence[TaskRow]) -> int:
    kinds = {(row.gpus, row.needs_gpus, row.attempt > 0): row for row in rows}
    return max((len(gpu_text(row)) for row in kinds.values()), default=0)


def _metric_cells(rows: Sequence[TaskRow]) -> int:
    names = {next(iter(row.metrics)) for row in rows if row.metrics}
    return max((min(METRIC_NAME_CELLS, len(name)) + 1 + NUMBER_CELLS for name in names), default=0)


def _reason_cells(rows: Sequence[TaskRow], flagged: Sequence[Sequence[str]]) -> int:
    reasons = max((len(row.reason) + len(row.pending) for row in rows), default=0)
    rungs = max((len(rung_text(row)) + 2 for row in rows if row.rung), default=0)
    words = max((sum(len(FLAGS[name][1]) + 2 for name in names) for names in flagged), default=0)
    return reasons + (_PREFIX_CELLS if reasons else 0) + rungs + words
