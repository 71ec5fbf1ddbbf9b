"""The columns of the task table: what there is, how wide their contents are, and which fit into a width. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...engine.protocol.states import ACTIVE, YET_TO_START, given_text
from ...engine.protocol.wire import TaskRow
from ..drawing.format import NUMBER_CELLS, clean, width_of
from ..drawing.view import FLAGS, METRIC_NAME_CELLS, SPARK_CELLS, flags, gpu_text, node_text, own_text, rung_text

GUTTER = 2
"""Cells before the first column: the cursor's bar or the mark."""
GAP = 1


@dataclass(frozen=True, slots=True)
class Column:
    id: str
    title: str
    rank: int
    """The greater the sooner it is left out."""
    least: int
    """Cells below which it says nothing."""
    most: int
    """Cells above which it says no more; its contents may need less."""
    right: bool = False
    """Numbers stand at the right."""
    sorts: str = ""
    """What a click on its title sorts by."""
    own: bool = False
    """As wide as its contents; none: as wide as it may be."""


COLUMNS: Mapping[str, Column] = {
    column.id: column
    for column in (
        Column("state", "", 0, 1, 11, sorts="state"),
        Column("name", "task", 1, 22, 80, sorts="name", own=True),
        Column("flags", "", 5, 1, 3, own=True),
        Column("entry", "entry", 14, 6, 24, sorts="entry", own=True),
        Column("group", "group", 13, 5, 16, sorts="group", own=True),
        Column("round", "rnd", 12, 3, 3, right=True, sorts="round"),
        Column("priority", "prio", 11, 4, 6, right=True, sorts="priority", own=True),
        Column("tags", "tags", 15, 6, 24, own=True),
        Column("params", "params", 16, 10, 40, own=True),
        Column("progress", "progress", 4, 9, 17, sorts="progress"),
        Column("time", "time", 2, 6, 6, right=True, sorts="time"),
        Column("eta", "left", 6, 7, 9, right=True, sorts="eta", own=True),
        Column("gpu", "gpu", 3, 3, 12, sorts="gpu", own=True),
        Column("node", "node", 3, 5, 24, sorts="node", own=True),
        Column("job", "job", 10, 8, 14, right=True, sorts="job", own=True),
        Column("attempt", "try", 9, 3, 3, right=True, sorts="attempt"),
        Column("metric", "metric", 8, 18, 29, sorts="metric", own=True),
        Column("reason", "why", 7, 14, 400, own=True),
    )
}

DEFAULT = ("state", "name", "flags", "progress", "time", "eta", "gpu", "attempt", "metric", "reason")
WIDE = ("state", "name", "flags", "round", "priority", "progress", "time", "eta", "gpu", "attempt", "metric", "reason")
WIDE_CELLS = 140
"""From here on the columns of WIDE are shown where no others were chosen."""
ON_SLURM = ("node", "job")
"""What a Slurm deck has in the place of its GPUs."""
WORD_CELLS = 100
"""From here on a state is told by its word, too."""
SORTS = ("file", "state", "name", "time", "eta", "gpu", "node", "job", "metric")
"""What `s` goes through."""
_NAME_CELLS, _NAME_SHARE = 28, 0.34
_REASON_CELLS = 20


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column as it stands on a line."""

    column: Column
    x: int
    width: int


def known(ids: Iterable[str]) -> tuple[list[str], list[str]]:
    """Ids that there are, `state` and `name` always among them, and those that there are not."""
    wanted = list(dict.fromkeys(ids))
    good = [each for each in wanted if each in COLUMNS]
    for place, each in enumerate(("state", "name")):
        if good and each not in good:
            good.insert(place, each)
    return good, [each for each in wanted if each not in COLUMNS]


def chosen(ids: Sequence[str], width: int, *, slurm: bool = False) -> Sequence[str]:
    """Those of the configuration, else what suits the width. *slurm*: of a deck whose tasks run on a cluster."""
    usual = WIDE if width >= WIDE_CELLS else DEFAULT
    if not slurm:
        return ids or usual
    return ids or [name for each in usual for name in (ON_SLURM if each == "gpu" else (each,))]


def lay_out(ids: Sequence[str], width: int, contents: Mapping[str, int]) -> list[PlacedColumn]:
    """Places of the columns that fit into *width* cells. *contents*: cells that each column's widest content takes; a
    column whose contents take none is left out."""
    columns = [COLUMNS[each] for each in ids if contents.get(each, 1) > 0]
    sizes = {column.id: min(column.least, _wanted(column, contents)) for column in columns}
    for column in sorted(columns, key=lambda column: -column.rank):
        if GUTTER + sum(sizes.values()) + GAP * len(sizes) <= width or len(sizes) == 1:
            break
        del sizes[column.id]
    columns = [column for column in columns if column.id in sizes]
    _share_out(columns, sizes, width, contents)
    return _placed(columns, sizes, width)


def _wanted(column: Column, contents: Mapping[str, int]) -> int:
    if not column.own:
        return column.most
    return min(column.most, max(contents.get(column.id, column.least), len(column.title)))


def _share_out(columns: Sequence[Column], sizes: dict[str, int], width: int, contents: Mapping[str, int]) -> None:
    """Give away what is left of the width: the name first, then what says more with more room, the reason the rest."""
    left = width - GUTTER - sum(sizes.values()) - GAP * len(sizes)

    def grow(name: str, upto: int) -> None:
        nonlocal left
        more = min(left, upto - sizes.get(name, upto))
        if more > 0:
            sizes[name] += more
            left -= more

    wanted = {column.id: _wanted(column, contents) for column in columns}
    if width >= WORD_CELLS:
        grow("state", wanted.get("state", 0))
    for name in ("gpu", "node", "flags", "eta", "job", "priority", "round"):
        grow(name, wanted.get(name, 0))
    grow("name", min(wanted.get("name", 0), _NAME_CELLS))
    if width >= WORD_CELLS:
        grow("metric", wanted.get("metric", 0))
    grow("reason", min(wanted.get("reason", 0), _REASON_CELLS))
    grow("name", min(wanted.get("name", 0), int(width * _NAME_SHARE)))
    grow("progress", 13)
    for column in columns:
        if column.id not in ("reason", "state", "progress"):
            grow(column.id, wanted[column.id])
    for name in ("reason", "progress"):
        grow(name, wanted.get(name, 0))


def _placed(columns: Sequence[Column], sizes: Mapping[str, int], width: int) -> list[PlacedColumn]:
    places: list[PlacedColumn] = []
    x = GUTTER
    for column in columns:
        size = max(0, min(sizes[column.id], width - x))
        places.append(PlacedColumn(column, x, size))
        x += size + GAP
    return places


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
    kinds = {(row.gpus, row.needs_gpus, row.on_cpu, row.attempt > 0, row.state in YET_TO_START): row for row in rows}
    return max((len(gpu_text(row)) for row in kinds.values()), default=0)


def _metric_cells(rows: Sequence[TaskRow]) -> int:
    names = {next(iter(row.metrics)) for row in rows if row.metrics}
    return max((min(METRIC_NAME_CELLS, len(name)) + 1 + NUMBER_CELLS for name in names), default=0)


def _reason_cells(rows: Sequence[TaskRow], flagged: Sequence[Sequence[str]]) -> int:
    reasons = max((len(row.reason) + len(row.pending) for row in rows), default=0)
    given = max((len(given_text(row)) + 2 for row in rows if row.given), default=0)
    rungs = max((len(rung_text(row)) + 2 for row in rows if row.rung or row.timeout_rung), default=0)
    words = max((sum(len(FLAGS[name][1]) + 2 for name in names) for names in flagged), default=0)
    return reasons + (_PREFIX_CELLS if reasons else 0) + given + rungs + words
