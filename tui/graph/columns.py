"""Boxes of a graph in columns: what waits stands behind what it waits for, and lines cross little. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from ...engine.protocol.pages import Graph

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
