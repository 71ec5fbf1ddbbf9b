"""The cluster that a Slurm deck's tasks run on, in the place of GPUs: my jobs, and what is free in each partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.geometry import Size
from textual.strip import Strip

from ...engine.protocol.wire import Cluster
from ..acting.bindings import bindings_of
from ..gpus.cluster import Line, lines_of
from .line_view import LineView

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

    def __init__(self, *, now: Callable[[], float] = time.time, id: str | None = None) -> None:  # noqa: A002
        """*now*: seconds since the epoch."""
        super().__init__(id=id)
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
