"""The GPUs of the deck: what each does, who is on it, how it fares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from ...engine.protocol.wire import GpuRow
from ..acting.actions import BY_ID, bindings, bindings_of
from ..drawing.spans import Span, cut
from ..settings import Thresholds
from .gpu_lines import FOLDED, STEPS, Drawn, GpuHistory, Layout, lay_out, lines_of, no_gpus
from .line_view import LineView

_GUTTER = 2
_STYLES = (
    "plain", "dim", "name", "task", "util", "deck", "mine", "others", "unexplained", "track",
    "rule", "util-graph", "memory-graph", "warn", "bad", "cursor",
)  # fmt: skip


class GpuPanes(LineView, inherit_bindings=False):
    """Panes or, for many GPUs or in little room, a line each. Only lines that differ are drawn again.

    The cursor stays with its GPU. Keys, double clicks and enter are posted upwards as `Acted` and `OpenProcesses`.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"gpupanes--{name}" for name in _STYLES}
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("gpus"),
        *bindings_of(*(name for name in STEPS if BY_ID[name].where == "tasks")),
    ]

    @dataclass
    class Acted(Message):
        """The user chose an action of the table for a GPU: drain or take."""

        action: str
        gpu: GpuRow

    @dataclass
    class OpenProcesses(Message):
        """The user wants to see who is on a GPU."""

        gpu: GpuRow

    def __init__(self, *, thresholds: Thresholds) -> None:
        super().__init__()
        self.history = GpuHistory()
        self._drawn = Drawn(self.history, thresholds)
        self._gpus: tuple[GpuRow, ...] = ()
        self._cursor = ""
        self._nothing = ""
        self._shown = Layout(0, 1, FOLDED, 1)
        self._strips: dict[int, list[Strip]] = {}

    # -- what is told from above ---------------------------------------------------------------------------------------

    def show(self, gpus: tuple[GpuRow, ...], at: float, *, cpu_slots: int = 0, cpu_tasks: Sequence[str] = ()) -> None:
        """Take in the GPUs as they are at *at*, seconds of a clock that runs on. Without any GPU, *cpu_slots* and
        the tasks on them are told of instead."""
        nothing = "" if gpus else no_gpus(cpu_slots, cpu_tasks)
        if gpus is self._gpus and nothing == self._nothing and self._drawn.told:
            return
        self.history.take(gpus, at)
        fewer_or_more = len(gpus) != len(self._gpus) or nothing != self._nothing
        self._gpus, self._nothing = gpus, nothing
        self._tell(told=True)
        if gpus and not any(gpu.uuid == self._cursor for gpu in gpus):
            self._cursor = gpus[0].uuid
        if fewer_or_more:
            self.refresh(layout=True)
            self._arrange()
        else:
            self._redraw()

    def interrupt(self, at: float) -> None:
        """The engine does not answer: histories have a gap from now on, the last values stay, muted."""
        self._tell(told=False)
        self.history.interrupt(at)
        self._redraw()

    def _tell(self, *, told: bool) -> None:
        if told != self._drawn.told:
            self._drawn = replace(self._drawn, told=told)

    # -- the cursor ----------------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> GpuRow | None:
        """The GPU under the cursor."""
        return next((gpu for gpu in self._gpus if gpu.uuid == self._cursor), None)

    def _select(self, place: int) -> None:
        self._cursor = self._gpus[place].uuid
        self._redraw()
        self._reveal()

    def _step(self, step: str) -> None:
        if self._gpus:
            self._select(self._shown.after(self._place(), step, self.size.height))

    def _place(self) -> int:
        return next((place for place, gpu in enumerate(self._gpus) if gpu.uuid == self._cursor), 0)

    def _reveal(self) -> None:
        top = self._shown.top(self._place())
        self.scroll_to_region(Region(0, top, 1, self._shown.pane_height), animate=False, force=True)

    def action_act(self, action_id: str) -> None:
        """Move the cursor, or post what an action of the table means for the GPU under it."""
        if action_id in STEPS:
            self._step(action_id)
            return
        if (gpu := self.chosen) is None:
            return
        self.post_message(self.OpenProcesses(gpu) if action_id == "processes" else self.Acted(action_id, gpu))

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        place = self._shown.at(offset.x + self.scroll_offset.x, offset.y + self.scroll_offset.y)
        if place is None:
            return
        self._select(place)
        if event.chain == 2:
            self.action_act("processes")

    # -- drawing -------------------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def on_mount(self) -> None:
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()

    def watch_has_focus(self, value: bool) -> None:
        super().watch_has_focus(value)
        self._redraw()

    def _arrange(self) -> None:
        """Panes have to find other places."""
        width, height = self.scrollable_content_region.size if self.is_attached else (0, 0)
        self._shown = lay_out(len(self._gpus), width, height)
        self.virtual_size = Size(width, max(1, self._shown.height))
        self._strips.clear()
        self.refresh()
        if self._gpus and self.is_attached:
            self._reveal()

    def _redraw(self) -> None:
        """Draw again what differs."""
        if not self._strips:
            return
        for place, gpu in enumerate(self._gpus):
            old = self._strips.get(place)
            if old is None:
                continue
            new = self._strips[place] = self._draw(gpu)
            top = self._shown.top(place)
            for line, (before, after) in enumerate(zip(old, new, strict=True)):
                if before != after:
                    self.refresh_line(top + line)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        y += self.scroll_offset.y
        if not self._gpus:
            return self._strip([(self._nothing, "dim")] if y == 0 else [], width)
        row, line = divmod(y, self._shown.pane_height)
        first = row * self._shown.columns
        places = range(first, min(first + self._shown.columns, len(self._gpus)))
        return Strip.join([self._pane(place)[line] for place in places]).adjust_cell_length(width, self._style("plain"))

    def _pane(self, place: int) -> list[Strip]:
        strips = self._strips.get(place)
        if strips is None:
            strips = self._strips[place] = self._draw(self._gpus[place])
        return strips

    def _draw(self, gpu: GpuRow) -> list[Strip]:
        width = self._shown.pane_width
        chosen = gpu.uuid == self._cursor and self.has_focus
        mark: Span = ("▌ ", "cursor") if chosen else ("  ", "plain")
        lines = lines_of(gpu, self._shown.pane_height, max(0, width - _GUTTER - 1), self._drawn)
        return [self._strip([mark, *line], width) for line in lines]

    def _strip(self, spans: Sequence[Span], width: int) -> Strip:
        segments = [Segment(text, self._style(style)) for text, style in cut(spans, width) if text]
        return Strip(segments).adjust_cell_length(width, self._style("plain"))
