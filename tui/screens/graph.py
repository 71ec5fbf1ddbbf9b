"""Rounds and needs as a graph of entries."""

from __future__ import annotations

from typing import Any

from textual.widget import Widget

from ...engine.protocol.pages import Graph
from ..acting.bindings import bindings
from ..widgets.graph_view import GraphView
from .page import PageScreen, read


class GraphScreen(PageScreen):
    BINDINGS = bindings("graph")
    OP = ACTION = "graph"
    PLACE = "graph"

    def __init__(self) -> None:
        super().__init__()
        self._view = GraphView(id="graph")

    def view(self) -> Widget:
        return self._view

    def on_mount(self) -> None:
        self._view.focus()

    def take(self, result: Any) -> None:
        self._view.show(read(result, Graph))

    def do_page_open(self) -> None:
        self._view.open()

    def do_page_down_line(self) -> None:
        self._view.move(0, 1)

    def do_page_up_line(self) -> None:
        self._view.move(0, -1)

    def do_graph_left(self) -> None:
        self._view.move(-1, 0)

    def do_graph_right(self) -> None:
        self._view.move(1, 0)
