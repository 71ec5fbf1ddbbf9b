"""Rounds and needs: a box for each entry in each round, lines from what comes before to what waits for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar, Literal

from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip

from ...engine.protocol.pages import Graph, GraphBarrier, GraphBox
from ...engine.protocol.states import ACTIVE, DONE, FAILED
from ..acting.actions import bindings
from ..drawing.format import bar, clean, count, cut_middle, fit, length, width_of
from ..messages import FilterTable
from ..widgets.line_view import LineView
from .page import PageScreen

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


Tone = Literal[
    "line", "after", "open", "waits", "shut", "border", "name", "cursor", "done", "rest", "running", "bad", "plain"
]
Run = tuple[str, Tone]
"""Some cells of one tone."""

_JOINTS = " ╵╶└╷│┌├╴┘─┴┐┤┬┼"
"""By the sum of the sides that a line leaves a cell on."""
_SIGNS: Sequence[tuple[str, Collection[str], Tone]] = (
    ("●", ACTIVE, "running"),
    ("✗", FAILED, "bad"),
    ("⊘", ("blocked",), "shut"),
    ("↻", ("backoff",), "waits"),
    ("–", ("cancelled",), "waits"),
    ("✂", ("pruned",), "waits"),
    ("○", ("queued",), "plain"),
    ("◌", ("waiting",), "rest"),
)
_BARRIER_SIGNS: Mapping[str, str] = {"open": "╎", "waits": "║", "shut": "╳"}


def line_of(layout: Layout, graph: Graph, y: int, chosen: int) -> list[Run]:
    """A line of the canvas. *chosen*: the box under the cursor; its border is heavy."""
    runs: list[Run] = []
    x = 0
    for placed in sorted(layout.by_line.get(y, ()), key=lambda placed: placed.x):
        runs += _between(layout, graph, y, x, placed.x)
        box = graph.boxes[placed.place]
        runs += _box_line(box, y - placed.y, layout.box_width, heavy=placed.place == chosen)
        x = placed.x + layout.box_width
    return [*runs, *_between(layout, graph, y, x, layout.width)]


def _between(layout: Layout, graph: Graph, y: int, start: int, end: int) -> Iterable[Run]:
    for x in range(start, end):
        if (y, x) in layout.arrows:
            yield "▶", layout.arrows[y, x]
        elif (y, x) in layout.lines:
            sides, tone = layout.lines[y, x]
            yield _JOINTS[sides], tone
        elif (y, x) in layout.barriers:
            state = graph.barriers[layout.barriers[y, x]].state
            yield _BARRIER_SIGNS[state], state
        else:
            yield " ", "plain"


def _box_line(box: GraphBox, line: int, width: int, *, heavy: bool) -> list[Run]:
    """One of the lines of a box: its name in the border, how far it is, how its tasks stand."""
    corners = "┏━┓┃┗┛" if heavy else "╭─╮│╰╯"
    border: Tone = "cursor" if heavy else "border"
    inner = width - 4
    match line:
        case 0:
            name = cut_middle(clean(title(box)), inner)
            rest = corners[1] * (inner - width_of(name) + 1) + corners[2]
            return [(corners[0] + corners[1], border), (name, "cursor" if heavy else "name"), (rest, border)]
        case 1:
            done = sum(box.counts.get(state, 0) for state in DONE)
            text = f" {count(done)}/{count(box.total)}"
            full, empty = bar(done / box.total if box.total else 0.0, max(0, inner - len(text)))
            return _framed([(full, "done"), (empty, "rest"), (text, "plain")], inner, corners[3], border)
        case 2:
            return _framed(_counts(box, inner), inner, corners[3], border)
        case _:
            return [(corners[4] + corners[1] * (width - 2) + corners[5], border)]


def _counts(box: GraphBox, width: int) -> list[Run]:
    """As many signs with their counts as there is room for; what needs eyes comes first."""
    runs: list[Run] = []
    left = width
    for sign, states, tone in _SIGNS:
        number = sum(box.counts.get(state, 0) for state in states)
        text = f"{sign} {count(number)}"
        if number and len(text) + (2 if runs else 0) <= left:
            if runs:
                runs.append(("  ", "plain"))
                left -= 2
            runs.append((text, tone))
            left -= len(text)
    return runs or [(fit("✓ done" if box.total else "", width), "done")]


def _framed(runs: list[Run], inner: int, side: str, border: Tone) -> list[Run]:
    used = length(runs)
    return [(f"{side} ", border), *runs, (" " * max(0, inner - used), "plain"), (f" {side}", border)]


def told(graph: Graph, place: int) -> str:
    """One line about a box: its round, what it waits for by name, what keeps its round closed."""
    box = graph.boxes[place]
    parts = [clean(title(box)), f"round {box.round}"]
    for kind in ("needs", "after"):
        edges = [edge for edge in graph.edges if edge.behind == place and edge.kind == kind]
        if edges:
            parts.append(f"{kind} {', '.join(clean(graph.boxes[edge.before].entry) for edge in edges)}")
    before = (each for each in graph.barriers if (each.group, each.round) == (box.group, box.round))
    barrier = next(before, None)
    if barrier is not None:
        parts.append("its round is open" if barrier.state == "open" else clean(barrier.why))
    return "  ·  ".join(parts)


def filter_for(box: GraphBox) -> str:
    """What the table is filtered by to show a box's tasks."""
    words = [f"entry:{_literal(box.entry)}", f"round:{box.round}"]
    return " ".join([*words, f"group:{_literal(box.group)}"] if box.group else words)


def _literal(text: str) -> str:
    """As a pattern that means this text; what would end a word or a value is any character."""
    return "".join("?" if char in ',"' or char.isspace() else f"[{char}]" if char in "*?[" else char for char in text)


_EMPTY = Graph(boxes=[], edges=[], barriers=[])
_PARTS = (
    "line", "after", "open", "waits", "shut", "border", "name", "done", "rest", "running", "bad", "plain",
    "cursor", "info",
)  # fmt: skip


class GraphView(LineView, inherit_bindings=False):
    """Give it a graph with `show`. The cursor is on a box and stays with it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"graphview--{part}" for part in _PARTS}
    ALLOW_SELECT = False
    DEFAULT_CSS = "GraphView { overflow: auto; }"

    def __init__(self) -> None:
        super().__init__()
        self._graph, self._layout = _EMPTY, Layout()
        self._chosen = 0
        self._known = False
        """Something has been shown."""

    @property
    def chosen(self) -> int:
        """Place of the box under the cursor; -1 without boxes."""
        return self._chosen if self._chosen < len(self._graph.boxes) else -1

    def show(self, graph: Graph) -> None:
        """The graph as it is now."""
        self._known = True
        if graph == self._graph:
            return
        before = self._graph.boxes[self.chosen] if self.chosen >= 0 else None
        reshaped = not same_shape(graph, self._graph)
        self._graph = graph
        if reshaped:
            self._layout = lay_out(graph)
            # The last line is over the canvas, not part of it.
            self.virtual_size = Size(self._layout.width, self._layout.height + 1)
            same = (
                place
                for place, box in enumerate(graph.boxes)
                if before is not None
                and (box.entry, box.group, box.round) == (before.entry, before.group, before.round)
            )
            self._chosen = next(same, 0)
        self.refresh()

    # -- moves --------------------------------------------------------------------------------------------------------

    def move(self, columns: int, lines: int) -> None:
        """To the next box in a direction, the nearest in height."""
        if self.chosen < 0:
            return
        here = self._layout.boxes[self.chosen]
        column = self._layout.columns[here.column]
        if lines:
            at = min(max(column.index(here.place) + lines, 0), len(column) - 1)
            self._choose(column[at])
            return
        wanted = here.column + columns
        while 0 <= wanted < len(self._layout.columns):
            if places := self._layout.columns[wanted]:
                self._choose(min(places, key=lambda place: abs(self._layout.boxes[place].y - here.y)))
                return
            wanted += columns

    def open(self) -> None:
        """The tasks of the box under the cursor, in the table."""
        if self.chosen >= 0:
            self.post_message(FilterTable(filter_for(self._graph.boxes[self.chosen])))

    def _choose(self, place: int) -> None:
        self._chosen = place
        box = self._layout.boxes[place]
        region = Region(box.x, box.y, self._layout.box_width, BOX_HEIGHT + 1)
        self.scroll_to_region(region, animate=False)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        x, y = event.x + self.scroll_offset.x, event.y + self.scroll_offset.y
        if event.y == self._area.height - 1:
            return
        for box in self._layout.by_line.get(y, ()):
            if box.x <= x < box.x + self._layout.box_width:
                self._choose(box.place)
                if event.chain == 2:
                    self.open()

    # -- drawing ------------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        width = self._area.width
        if y == self._area.height - 1:
            return self._foot(self._info())
        line = y + self.scroll_offset.y
        if line >= self._layout.height:
            return Strip.blank(width, self._style("plain"))
        left = self.scroll_offset.x
        strip = Strip(self._segments(line_of(self._layout, self._graph, line, self.chosen)))
        return strip.crop_extend(left, left + width, self._style("plain"))

    def _segments(self, runs: Iterable[Run]) -> list[Segment]:
        return [
            Segment("".join(text for text, _ in group), self._style(tone))
            for tone, group in groupby(runs, key=lambda run: run[1])
        ]

    def _info(self) -> str:
        if self.chosen < 0:
            return "no tasks" if self._known else ""
        return told(self._graph, self.chosen)


class GraphScreen(PageScreen[GraphView]):
    BINDINGS = bindings("graph")
    OP = ACTION = "graph"
    PLACE = "graph"
    ACTS: ClassVar[Mapping[str, Callable[[GraphView], None]]] = {
        "page_open": GraphView.open,
        "page_down_line": lambda view: view.move(0, 1),
        "page_up_line": lambda view: view.move(0, -1),
        "graph_left": lambda view: view.move(-1, 0),
        "graph_right": lambda view: view.move(1, 0),
    }

    def __init__(self) -> None:
        super().__init__()
        self._view = GraphView()

    async def load(self) -> None:
        self._view.show(await self.told(Graph))
