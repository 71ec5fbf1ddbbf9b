"""Where boxes, lines and walls of a graph stand: what waits stands behind what it waits for. Pure; knows no widget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...engine.protocol.pages import Graph, GraphBarrier, GraphBox
from ..drawing.format import clean, width_of

Node = tuple[Literal["box", "line"], int, int]
"""A box by its place, or the passage of an edge (by its place) through a column; and the column."""


def ranks_of(graph: Graph) -> list[int]:
    """A column for each box: behind all that it waits for, by name or by round."""
    ranks = [0] * len(graph.boxes)
    rounds: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, box in enumerate(graph.boxes):
        rounds[box.group][box.round].append(place)
    edges = [(edge.before, edge.behind) for edge in graph.edges if edge.before != edge.behind]
    for _ in range(len(graph.boxes)):
        before = list(ranks)
        for one, other in edges:
            ranks[other] = max(ranks[other], ranks[one] + 1)
        for group in rounds.values():
            least = 0
            for number in sorted(group):
                for place in group[number]:
                    ranks[place] = max(ranks[place], least)
                least = max(ranks[place] for place in group[number]) + 1
        if ranks == before or max(ranks, default=0) > len(graph.boxes):
            break
    return [min(rank, len(graph.boxes)) for rank in ranks]


def columns_of(graph: Graph, ranks: Sequence[int]) -> list[list[Node]]:
    """Boxes and the passages of long edges, from top to bottom."""
    columns: list[list[Node]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for place, rank in enumerate(ranks):
        columns[rank].append(("box", place, rank))
    feeds = _add_passages(columns, graph, ranks)
    heights: dict[Node, float] = {}
    for column in columns:
        _order(column, graph, feeds, heights)
    return columns


def _add_passages(columns: list[list[Node]], graph: Graph, ranks: Sequence[int]) -> Mapping[Node, Sequence[Node]]:
    """Room for every edge in the columns that it passes. Returns by node what leads to it from the column before."""
    feeds: dict[Node, list[Node]] = defaultdict(list)
    for number, edge in enumerate(graph.edges):
        last: Node = ("box", edge.before, ranks[edge.before])
        for rank in range(ranks[edge.before] + 1, ranks[edge.behind]):
            passage: Node = ("line", number, rank)
            columns[rank].append(passage)
            feeds[passage].append(last)
            last = passage
        if ranks[edge.before] < ranks[edge.behind]:
            feeds["box", edge.behind, ranks[edge.behind]].append(last)
    return feeds


def _order(column: list[Node], graph: Graph, feeds: Mapping[Node, Sequence[Node]], heights: dict[Node, float]) -> None:
    """Group by group, each node at the height of what leads to it; *heights* of the columns before, and then its."""
    groups = list(dict.fromkeys(box.group for box in graph.boxes))
    for place, node in enumerate(column):
        before = [heights[each] for each in feeds.get(node, ()) if each in heights]
        heights[node] = sum(before) / len(before) if before else float(place)

    def key(node: Node) -> tuple[int, float]:
        kind, place, _ = node
        box = graph.boxes[place if kind == "box" else graph.edges[place].behind]
        return groups.index(box.group), heights[node]

    column.sort(key=key)
    heights.update({node: float(place) for place, node in enumerate(column)})


BOX_HEIGHT = 4
NORTH, EAST, SOUTH, WEST = 1, 2, 4, 8
"""Sides that a line leaves a cell on."""
_LEAST_WIDTH, _MOST_WIDTH = 20, 34
_GUTTER = 7
"""Cells between two columns: stubs, channels of lines, a barrier."""
_CHANNELS = 3

LineTone = Literal["line", "after"]
"""Of an edge by name, or by order alone."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A box on the canvas."""

    place: int
    """Among the graph's boxes."""
    column: int
    x: int
    y: int


@dataclass(slots=True)
class Layout:
    """Where everything is. Counts may change under it; with other boxes, edges or barriers it is made anew."""

    width: int = 0
    height: int = 0
    box_width: int = _LEAST_WIDTH
    boxes: list[Placed] = field(default_factory=list[Placed])
    """By place."""
    columns: list[list[int]] = field(default_factory=list[list[int]])
    """Places of boxes, from top to bottom."""
    lines: dict[tuple[int, int], tuple[int, LineTone]] = field(
        default_factory=dict[tuple[int, int], tuple[int, LineTone]]
    )
    """Sides that a line leaves a cell on, by (y, x)."""
    arrows: dict[tuple[int, int], LineTone] = field(default_factory=dict[tuple[int, int], LineTone])
    barriers: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    """Place of the barrier that passes a cell."""
    by_line: dict[int, list[Placed]] = field(default_factory=dict[int, list[Placed]])
    """Boxes that a line of the canvas crosses."""

    def x_of(self, column: int) -> int:
        return column * (self.box_width + _GUTTER)


def same_shape(one: Graph, other: Graph) -> bool:
    """Whether only counts and states differ."""
    return (
        one.edges == other.edges
        and [(box.entry, box.group, box.round) for box in one.boxes]
        == [(box.entry, box.group, box.round) for box in other.boxes]
        and [(each.group, each.round) for each in one.barriers] == [(each.group, each.round) for each in other.barriers]
    )


def lay_out(graph: Graph) -> Layout:
    """Columns by what comes before what, lines from the right of a box to the left of those behind it."""
    layout = Layout()
    ranks = ranks_of(graph)
    widest = max((width_of(clean(title(box))) for box in graph.boxes), default=0)
    layout.box_width = min(max(widest + 4, _LEAST_WIDTH), _MOST_WIDTH)
    touched = _place(layout, columns_of(graph, ranks), len(graph.boxes))
    for number in range(len(graph.edges)):
        _draw_edge(layout, graph, number, ranks, touched)
    for place, barrier in enumerate(graph.barriers):
        _draw_barrier(layout, graph, place, barrier)
    return layout


def title(box: GraphBox) -> str:
    return f"{box.group} · {box.entry}" if box.group else box.entry


def _place(layout: Layout, nodes: Sequence[Sequence[Node]], count_boxes: int) -> dict[Node, int]:
    """Give every node its line. Returns the lines at which edges touch them."""
    touched: dict[Node, int] = {}
    boxes: dict[int, Placed] = {}
    for number, column in enumerate(nodes):
        x, y = layout.x_of(number), 0
        layout.columns.append([node[1] for node in column if node[0] == "box"])
        for node in column:
            if node[0] == "box":
                boxes[node[1]] = Placed(node[1], number, x, y)
                for line in range(y, y + BOX_HEIGHT):
                    layout.by_line.setdefault(line, []).append(boxes[node[1]])
                touched[node] = y + 1
                y += BOX_HEIGHT
            else:
                touched[node] = y
                y += 1
        layout.height = max(layout.height, y)
    layout.boxes = [boxes[place] for place in range(count_boxes)]
    layout.width = max(0, layout.x_of(len(nodes)) - _GUTTER)
    return touched


# -- lines ------------------------------------------------------------------------------------------------------------


def _draw_edge(layout: Layout, graph: Graph, number: int, ranks: Sequence[int], touched: Mapping[Node, int]) -> None:
    edge = graph.edges[number]
    first, last = ranks[edge.before], ranks[edge.behind]
    if first >= last:
        return
    tone: LineTone = "line" if edge.kind == "needs" else "after"
    y = touched["box", edge.before, first]
    for rank in range(first, last):
        goal = rank + 1 == last
        target = touched["box", edge.behind, last] if goal else touched["line", number, rank + 1]
        left, end = layout.x_of(rank) + layout.box_width, layout.x_of(rank + 1) - 1
        turn = left + 1 + edge.before % _CHANNELS
        _horizontal(layout, y, left, turn, tone)
        _vertical(layout, turn, y, target, tone)
        _horizontal(layout, target, turn, end if goal else end + layout.box_width, tone)
        if goal:
            layout.arrows[target, end] = tone
        y = target


def _horizontal(layout: Layout, y: int, start: int, end: int, tone: LineTone) -> None:
    """Through the cells from *start* to *end*, both included; outside of the channels it leaves them on both sides."""
    for x in range(start, end + 1):
        passes = not _is_channel(layout, x)
        _join(layout, y, x, (WEST if x > start or passes else 0) | (EAST if x < end or passes else 0), tone)


def _is_channel(layout: Layout, x: int) -> bool:
    """Lines turn up and down in this column of cells."""
    offset = x % layout.x_of(1) - layout.box_width
    return 1 <= offset <= _CHANNELS


def _vertical(layout: Layout, x: int, start: int, end: int, tone: LineTone) -> None:
    top, bottom = min(start, end), max(start, end)
    for y in range(top, bottom + 1):
        _join(layout, y, x, (NORTH if y > top else 0) | (SOUTH if y < bottom else 0), tone)


def _join(layout: Layout, y: int, x: int, sides: int, tone: LineTone) -> None:
    old, old_tone = layout.lines.get((y, x), (0, tone))
    layout.lines[y, x] = (old | sides, "line" if "line" in (old_tone, tone) else tone)


def _draw_barrier(layout: Layout, graph: Graph, place: int, barrier: GraphBarrier) -> None:
    """A wall left of the first boxes of its round, as high as they are."""
    behind = [
        layout.boxes[at]
        for at, box in enumerate(graph.boxes)
        if (box.group, box.round) == (barrier.group, barrier.round)
    ]
    if not behind:
        return
    column = min(box.column for box in behind)
    first = [box for box in behind if box.column == column]
    x = layout.x_of(column) - 2
    for y in range(min(box.y for box in first), max(box.y for box in first) + BOX_HEIGHT):
        layout.barriers[y, x] = place
