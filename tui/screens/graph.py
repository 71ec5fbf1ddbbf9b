"""Rounds and needs: a box for each entry in each round, lines from what comes before to what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip

from ...engine.protocol.pages import Graph
from ..acting.actions import bindings
from ..graph.layout import BOX_HEIGHT, Layout, lay_out, same_shape
from ..graph.lines import Run, filter_for, line_of, told
from ..messages import FilterTable
from ..widgets.line_view import LineView
from .page import PageScreen

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

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
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
        self._view = GraphView(id="graph")

    async def load(self) -> None:
        self._view.show(await self.told(Graph))
