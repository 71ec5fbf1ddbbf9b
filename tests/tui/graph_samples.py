"""Graphs to draw."""

from __future__ import annotations

from collections.abc import Iterable

from gpudeck.engine.protocol.pages import Graph, GraphBarrier, GraphBox, GraphEdge
from gpudeck.tui.screens.graph import lay_out, line_of


def box(entry: str, number: int = 0, group: str = "", **counts: int) -> GraphBox:
    counts = counts or {"waiting": 1}
    return GraphBox(entry=entry, group=group, round=number, total=sum(counts.values()), counts=counts)


def edge(before: int, behind: int, kind: str = "needs") -> GraphEdge:
    return GraphEdge(before=before, behind=behind, kind=kind)  # pyright: ignore[reportArgumentType]


def graph(boxes: Iterable[GraphBox], edges: Iterable[GraphEdge] = (), barriers: Iterable[GraphBarrier] = ()) -> Graph:
    return Graph(boxes=list(boxes), edges=list(edges), barriers=list(barriers))


def drawn(given: Graph, chosen: int = -1) -> list[str]:
    layout = lay_out(given)
    return ["".join(text for text, _ in line_of(layout, given, y, chosen)).rstrip() for y in range(layout.height)]
