"""What ran where and when: a line for each slot of a GPU, time from left to right, and the gaps between attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.strip import Strip

from ...engine.protocol.pages import AttemptRow, TimelinePage
from ..acting.actions import bindings
from ..background import in_thread
from ..drawing.format import cut, fit, width_of
from ..messages import OpenTask
from ..widgets.line_view import LineView
from .page import PageScreen
from .timeline_lanes import Lane, Piece, Sight, Window, axis, lanes_of, pieces, scale_text, told

_LABEL, _SHARE_CELLS = 8, 6
"""Cells left and right of a lane."""
_OTHER_LINES = 2
"""The axis above the lanes, what is under the cursor below them."""
_NOW = "│"
_PAN = 0.25
"""Share of the width."""
_PARTS = (
    "label", "axis", "gap", "good", "bad", "running", "stopped", "lost", "mixed", "now", "cursor", "info", "share",
)  # fmt: skip


class TimelineView(LineView, inherit_bindings=False):
    """Give it lanes with `show`. The cursor is on an attempt and stays with it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"timelineview--{part}" for part in _PARTS}
    ALLOW_SELECT = False
    DEFAULT_CSS = "TimelineView { overflow-x: hidden; overflow-y: auto; }"

    def __init__(self, *, now: Callable[[], float]) -> None:
        """*now*: seconds since the epoch."""
        super().__init__()
        self._now = now
        self._sight = Sight(now())
        self._is_told = False
        """What has run; until then there is no time to draw an axis of."""
        self._dragged_from: tuple[int, Window] | None = None

    # -- what others look at ------------------------------------------------------------------------------------------

    @property
    def window(self) -> Window:
        return self._sight.window

    @property
    def task_name(self) -> str:
        """Under the cursor; "": none."""
        attempt = self._sight.attempt
        return "" if attempt is None else attempt.task

    @property
    def moves(self) -> bool:
        """Whether what it shows changes with time alone."""
        return self._sight.moves

    # -- changes ------------------------------------------------------------------------------------------------------

    def show(self, lanes: Sequence[Lane]) -> None:
        """Take other lanes; the cursor stays on its attempt."""
        self._is_told = True
        self._sight.show(lanes, self._now())
        self._measure()
        self.refresh()

    def tick(self) -> None:
        """Time has passed."""
        self._sight.pass_time(self._now())
        self.refresh()

    def on_resize(self) -> None:
        self._measure()

    def _measure(self) -> None:
        self.virtual_size = Size(self._area.width, len(self._sight.lanes) + _OTHER_LINES)

    # -- moves --------------------------------------------------------------------------------------------------------

    def move_lane(self, step: int) -> None:
        """To the lane before or behind, to what is there at the time that is looked at."""
        self._sight.move_lane(step)
        self._reveal()

    def move_attempt(self, step: int) -> None:
        """To the attempt before or behind on the same lane."""
        self._sight.move_attempt(step, self._now())
        self._reveal()

    def zoom(self, step: int) -> None:
        """Closer with 1, wider with -1, around the cursor."""
        self._sight.zoom(step, self._now())
        self._reveal()

    def pan(self, step: int) -> None:
        """By a quarter of the width."""
        self._sight.look(self.window.panned(step * _PAN), self._now())
        self._reveal()

    def show_all(self) -> None:
        self._sight.show_all(self._now())
        self.refresh()

    def follow(self) -> None:
        """To the present, with the width that it has."""
        self._sight.follow(self._now())
        self.refresh()

    def open(self) -> None:
        """The task under the cursor."""
        if self.task_name:
            self.post_message(OpenTask(self.task_name))

    def _reveal(self) -> None:
        """Scroll to the lane under the cursor."""
        lane, top = self._sight.lane_number, self.scroll_offset.y
        height = max(1, self._area.height - _OTHER_LINES)
        if not top <= lane < top + height:
            self.scroll_to(y=lane if lane < top else lane - height + 1, animate=False)
        self.refresh()

    # -- mouse --------------------------------------------------------------------------------------------------------

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragged_from = (event.x, self.window)
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged_from is not None and event.x != self._dragged_from[0]:
            x, window = self._dragged_from
            self._sight.look(window.panned((x - event.x) / self._cells), self._now())
            self._reveal()

    def on_mouse_up(self) -> None:
        self._dragged_from = None
        self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        lane = event.y - 1 + self.scroll_offset.y
        if not (0 < event.y < self._area.height - 1 and lane < len(self._sight.lanes)):
            return
        self._sight.point(lane, self.window.start + (event.x - _LABEL + 0.5) / self._cells * self.window.span_s)
        self.refresh()
        if event.chain == 2:
            self.open()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, step: int) -> None:
        if event.ctrl:
            self.zoom(step)
        elif event.shift:
            self.pan(-step)
        else:
            return
        event.stop()
        event.prevent_default()

    # -- drawing ------------------------------------------------------------------------------------------------------

    @property
    def _cells(self) -> int:
        """Cells of the time between its borders."""
        return max(1, self._area.width - _LABEL - _SHARE_CELLS)

    def render_line(self, y: int) -> Strip:
        width = self._area.width
        if not self._is_told:
            return Strip.blank(width, self._style("gap"))
        if y == 0:
            text = fit(scale_text(self.window, self._cells), _LABEL) + axis(self.window, self._cells)
            return Strip([Segment(fit(text, width), self._style("axis"))], width)
        if y == self._area.height - 1:
            return Strip([Segment(fit(self._info(), width), self._style("info"))], width)
        number = y - 1 + self.scroll_offset.y
        if number >= len(self._sight.lanes):
            return Strip.blank(width, self._style("gap"))
        return Strip(list(self._lane_line(number))).adjust_cell_length(width)

    def _lane_line(self, number: int) -> Iterator[Segment]:
        lane, now_s, window = self._sight.lanes[number], self._now(), self.window
        mine = number == self._sight.lane_number
        yield Segment(fit(lane.label, _LABEL - 1) + ("▸" if mine else " "), self._style("label"))
        now_at = int((now_s - window.start) / window.span_s * self._cells)
        x = 0
        for piece in pieces(lane, window, self._cells, now_s):
            if mine and piece.place == self._sight.place and piece.place >= 0:
                yield Segment(piece.text, self._style(piece.tone) + self._style("cursor", partial=True))
            elif piece.tone == "gap":
                yield from self._gap(piece, now_at - x)
            else:
                yield Segment(piece.text, self._style(piece.tone))
            x += width_of(piece.text)
        share = lane.share(window.start, window.end, now_s)
        yield Segment("" if share is None else f"{share:>{_SHARE_CELLS - 1}.0%} ", self._style("share"))

    def _gap(self, piece: Piece, now_at: int) -> Iterator[Segment]:
        if not 0 <= now_at < len(piece.text):
            yield Segment(piece.text, self._style("gap"))
            return
        yield Segment(piece.text[:now_at], self._style("gap"))
        yield Segment(_NOW, self._style("now"))
        yield Segment(piece.text[now_at + 1 :], self._style("gap"))

    def _info(self) -> str:
        lane, attempt = self._sight.lane, self._sight.attempt
        if lane is None:
            return " nothing has run yet"
        if attempt is None:
            return f" {lane.label.strip()}: nothing has run here"
        return cut(f" {told(attempt, self._now())}", self._area.width)


_AGAIN_S = 2.0
"""Asked again from this long before the last answer on: ends are written a moment after they happen."""


class TimelineScreen(PageScreen[TimelineView]):
    BINDINGS = bindings("timeline")
    OP = ACTION = "timeline"
    PLACE = "timeline"
    ACTS: ClassVar[Mapping[str, Callable[[TimelineView], None]]] = {
        "page_open": TimelineView.open,
        "page_down_line": lambda view: view.move_lane(1),
        "page_up_line": lambda view: view.move_lane(-1),
        "timeline_before": lambda view: view.move_attempt(-1),
        "timeline_behind": lambda view: view.move_attempt(1),
        "timeline_closer": lambda view: view.zoom(1),
        "timeline_wider": lambda view: view.zoom(-1),
        "timeline_back": lambda view: view.pan(-1),
        "timeline_on": lambda view: view.pan(1),
        "timeline_now": TimelineView.follow,
        "timeline_all": TimelineView.show_all,
    }

    def __init__(self) -> None:
        super().__init__()
        self._attempts: dict[tuple[str, int], AttemptRow] = {}
        self._since = 0.0
        self._view = TimelineView(now=self.gpudeck.clocks.wall)

    def on_mount(self) -> None:
        self.set_interval(1.0, self._tick)

    def _tick(self) -> None:
        if self.is_current and self._view.moves:
            self._view.tick()

    async def load(self) -> None:
        start, told_at = 0, None
        while start is not None:
            page = await self.told(TimelinePage, since=self._since, start=start)
            self._attempts.update(((row.task, row.attempt), row) for row in page.attempts)
            start, told_at = page.next, told_at or page.now
        self._since = (told_at or 0.0) - _AGAIN_S
        attempts, gpus = list(self._attempts.values()), [gpu.index for gpu in self.deck.gpus]
        self._view.show(await in_thread(lambda: lanes_of(attempts, gpus)))

    # -- actions ------------------------------------------------------------------------------------------------------

    def targets(self) -> tuple[str, ...]:
        return (self._view.task_name,) if self._view.task_name else ()
