"""The cluster that a Slurm deck's tasks run on, in the place of GPUs: my jobs, and what is free in each partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.geometry import Size
from textual.strip import Strip

from ...engine.protocol.wire import Cluster, ClusterRow
from ..acting.actions import bindings_of
from ..drawing.format import bar, clean, count, cut_middle, duration, length
from ..drawing.spans import Part, Span, cut, muted, pack, pad
from .line_view import LineView

Line = list[Span]

OLD_S = 15.0
"""What was told so long ago is marked with its age: the engine asks every five seconds, unless Slurm takes long."""
_WIDE = 100
"""Cells from which a bar stands before the numbers, and names have all the room they want."""
_NAME_CELLS = 12
"""Of a partition's name where there is less."""
_BAR_CELLS = 10


def lines_of(cluster: Cluster | None, width: int, now_s: float, *, told: bool = True) -> list[Line]:
    """*now_s*: seconds since the epoch. *told*: an engine tells how the cluster fares; else it is shown as it was,
    muted."""
    if cluster is None:
        return [cut([("Slurm", "name"), ("  without an engine nobody asks the cluster", "dim")], width)]
    trouble = _trouble(cluster, told=told)
    if not cluster.partitions:
        asked = [] if trouble else [("  is being asked", "dim")]
        return [*([pack(trouble, width)] if trouble else []), [("Slurm", "name"), *asked]]
    age_s = 0.0 if trouble else now_s - cluster.at
    lines = _table(cluster, width, age_s)
    if trouble:
        return [pack(trouble, width), *map(muted, lines)]
    return lines


def height_of(cluster: Cluster | None) -> int:
    """Lines that it takes; one more where it is in trouble."""
    return 1 + (0 if cluster is None else len(cluster.partitions) + bool(cluster.problem))


def _trouble(cluster: Cluster, *, told: bool) -> list[Part]:
    """Why what is shown may no longer be so; nothing where it is."""
    parts = [Part(1, ((f"Slurm does not answer: {clean(cluster.problem)}", "bad"),))] if cluster.problem else []
    if cluster.at and (parts or not told):
        since = time.strftime("%H:%M:%S", time.localtime(cluster.at))
        parts.append(Part(0, ((f"as of {since}", "warn"),)))
    return parts


# -- the table --------------------------------------------------------------------------------------------------------


def _table(cluster: Cluster, width: int, age_s: float) -> list[Line]:
    """Titles over the columns; a column in which no partition has anything is left out."""
    rows, wide = cluster.partitions, width >= _WIDE
    names: list[Line] = [[(_name(row, wide=wide), "name")] for row in rows]
    lines = _columned(_title(age_s, wide=wide), names, [])
    if any(row.state != "up" for row in rows):
        lines = _columned([], [[(row.state, "dim" if row.state == "up" else "warn")] for row in rows], lines)
    if wide:
        lines = _columned([], [_bar(row) for row in rows], lines)
    for title, told in _NUMBERS:
        texts = [told(row) for row in rows]
        if any(texts):
            lines = _columned([(title, "dim")], [[(text or "-", "plain")] for text in texts], lines, right=True)
    totals: Line = [("mine ", "dim"), (_jobs(cluster.running, cluster.pending) or "none", "plain")]
    lines = _columned(totals, [[(_jobs(row.running, row.pending), "task")] for row in rows], lines)
    if wide:
        types: list[Line] = [[(clean("  ".join(row.gpu_types)), "dim")] for row in rows]
        lines = _columned([], types, lines)
    return [cut(_trimmed(line), width) for line in lines]


def _title(age_s: float, *, wide: bool) -> Line:
    """Jobs of this deck are as they are now; the age is of all the rest."""
    if age_s <= OLD_S:
        return [("Slurm", "name")]
    age = (f"{duration(age_s)} ago", "warn")
    return [("Slurm ", "name"), age] if wide else [age]


def _trimmed(line: Line) -> Line:
    """Without blanks at its end."""
    while line and not line[-1][0].strip():
        line = line[:-1]
    return line


def _columned(title: Line, cells: list[Line], before: list[Line], *, right: bool = False) -> list[Line]:
    """One more column behind those of *before*."""
    column = [title, *cells]
    room = max(map(length, column))
    padded = [pad(cell, room, right=right) for cell in column]
    return [[*line, ("  ", "plain"), *cell] for line, cell in zip(before, padded, strict=True)] if before else padded


def _name(row: ClusterRow, *, wide: bool) -> str:
    """ "gpu*" for the partition where jobs go that name none."""
    name = clean(row.partition)
    return (name if wide else cut_middle(name, _NAME_CELLS)) + ("*" if row.default else "")


def _of(some: int | None, total: int | None) -> str:
    """ "3/16"; "" where there are none."""
    return f"{some}/{total}" if some is not None and total else ""


_NUMBERS: tuple[tuple[str, Callable[[ClusterRow], str]], ...] = (
    ("GPUs free", lambda row: _of(row.gpus_free, row.gpus_total)),
    ("CPUs free", lambda row: _of(row.cpus_free, row.cpus_total)),
    ("nodes", lambda row: _of(row.nodes_up, row.nodes_total)),
)


def _jobs(running: int, pending: int) -> str:
    told = ((running, "running"), (pending, "pending"))
    return ", ".join(f"{count(number)} {word}" for number, word in told if number)


def _bar(row: ClusterRow) -> Line:
    """How many of its GPUs are taken, of a partition without any how many CPUs."""
    pairs = ((row.gpus_free, row.gpus_total), (row.cpus_free, row.cpus_total))
    free, total = next(((free, total) for free, total in pairs if free is not None and total), (1, 1))
    taken, rest = bar((total - free) / total, _BAR_CELLS)
    return [(taken, "util"), (rest, "track")]


_PARTS = ("plain", "dim", "name", "task", "util", "track", "warn", "bad")
_STEPS: Mapping[str, Callable[[LineView], None]] = {
    "up": lambda view: view.scroll_up(animate=False),
    "down": lambda view: view.scroll_down(animate=False),
    "page_up": lambda view: view.scroll_page_up(animate=False),
    "page_down": lambda view: view.scroll_page_down(animate=False),
    "top": lambda view: view.scroll_home(animate=False),
    "bottom": lambda view: view.scroll_end(animate=False),
}
"""By actions of the table."""
_LOOK_S = 5.0
"""How often it is seen whether what was told last has become old."""


class ClusterPane(LineView, inherit_bindings=False):
    """Give it the cluster with `show`; with more partitions than lines it is scrolled."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"clusterpane--{part}" for part in _PARTS}
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(*_STEPS)]
    ALLOW_SELECT = False
    DEFAULT_CSS = "ClusterPane { overflow-x: hidden; overflow-y: auto; }"

    def __init__(self, *, now: Callable[[], float]) -> None:
        """*now*: seconds since the epoch."""
        super().__init__()
        self._now = now
        self._cluster: Cluster | None = None
        self._told = True
        self._lines: list[Line] = []

    def show(self, cluster: Cluster | None, *, told: bool) -> None:
        """The cluster as it was told last; *told*: there is an engine that tells."""
        self._cluster, self._told = cluster, told
        self._redraw()

    def on_mount(self) -> None:
        self.set_interval(_LOOK_S, self._redraw)

    def on_resize(self) -> None:
        self._redraw()

    def action_act(self, action_id: str) -> None:
        """Scroll."""
        _STEPS[action_id](self)

    def _redraw(self) -> None:
        width = max(0, self._area.width - 4)
        lines = lines_of(self._cluster, width, self._now(), told=self._told)
        if lines != self._lines:
            self._lines = lines
            self.virtual_size = Size(self._area.width, len(lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, y = self._area.width, y + self.scroll_offset.y
        spans = self._lines[y] if y < len(self._lines) else []
        segments = [Segment(text, self._style(style)) for text, style in [("  ", "plain"), *spans] if text]
        return Strip(segments).adjust_cell_length(width, self._style("plain"))
