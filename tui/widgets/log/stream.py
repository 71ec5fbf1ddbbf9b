"""One log file on the screen. A thread reads it; this draws the last frame that the thread has delivered."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from ...logs.reader import GROWTH_S, Move, Reader
from ...logs.viewport import Frame
from ..line_view import selected_style
from .paint import Marks, Paint, Sight
from .words import nothing_words

if TYPE_CHECKING:
    from ...logs.search import Hits

_WHEEL_ROWS = 3
_SIDEWAYS_CELLS = 8


class LogStream(Widget, can_focus=True):
    """`show` a path; moves are posted to its reader. Tells `Moved` after each frame."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log-stream--hit", "log-stream--hit-line", "log-stream--current", "log-stream--note", "log-stream--bar",
        "log-stream--thumb",
    }  # fmt: skip

    frame: reactive[Frame] = reactive(Frame, init=False, always_update=True)
    sideways: reactive[int] = reactive(0)
    """Cells that are scrolled away on the left, where lines are not wrapped."""

    class Moved(Message):
        """There is something else to see, or a search has got on."""

        def __init__(self, stream: LogStream) -> None:
            super().__init__()
            self.stream = stream

        @property
        def control(self) -> LogStream:
            return self.stream

    class _Delivered(Message, bubble=False):
        """A frame lies in the slot."""

    def __init__(self, *, id: str | None = None, bar: bool = True, growth_s: float = GROWTH_S) -> None:  # noqa: A002
        """*growth_s*: between two pictures of a log that grows."""
        super().__init__(id=id)
        self._growth_s = growth_s
        self.path = ""
        self.running = False
        self.pending = False
        self.marks = Marks()
        """What of a search is to be seen here."""
        self._bar = bar
        self._reader: Reader | None = None
        self._serial = 0
        """Of the reader: what an earlier one still says does not count."""
        self._slot: Frame | None = None
        self._watching = True
        self._grabbed = False
        self._paint: Paint | None = None
        self.started = False
        """A frame of this path has come."""
        self.held = False
        """There is more to see, which would move the text that is selected."""

    # -- what is shown ------------------------------------------------------------------------------------------------

    def show(self, path: str, *, running: bool, follow: bool, wrap: bool, pending: bool = False) -> None:
        """Another file, or "" for none. The same path only takes up what has changed about it."""
        self.running, self.pending = running, pending
        if path == self.path:
            self.refresh()
            return
        self._stop()
        self.path, self.started, self.marks = path, False, Marks()
        self.sideways = 0
        self.frame = Frame()
        if path:
            self._open(path, follow=follow, wrap=wrap)

    def _open(self, path: str, *, follow: bool, wrap: bool) -> None:
        self._serial += 1
        serial = self._serial
        self._reader = Reader(path, lambda frame: self._deliver(serial, frame), self._growth_s)
        self._reader.post(lambda view: (view.wrap(wrap), view.set_follow(follow)))
        self._resize()
        self._reader.watch(self._watching)
        self._reader.start()

    def move(self, move: Move) -> None:
        """Do something to the viewport; the next frame shows it."""
        if self._selection is not None:
            self.screen.clear_selection()
        if self._reader is not None:
            self._reader.post(move)

    def watch_growth(self, on: bool) -> None:
        """Not while it cannot be seen."""
        self._watching = on
        if self._reader is not None:
            self._reader.watch(on)

    def move_sideways(self, steps: int) -> None:
        if not self.frame.wrap:
            widest = max((cell_len(row.text) for row in self.frame.rows), default=0)
            self.sideways = max(0, min(self.sideways + steps * _SIDEWAYS_CELLS, widest - self._columns // 2))

    def mark(self, *, needle: str, hits: Hits | None, current: int = -1) -> None:
        """What of a search is to be seen here."""
        self.marks = Marks(needle, hits, current)
        self.refresh()

    def _deliver(self, serial: int, frame: Frame) -> None:
        """On the reader's thread. Frames that nobody has drawn yet are replaced."""
        if serial != self._serial:
            return
        empty, self._slot = self._slot is None, frame
        if empty:
            with contextlib.suppress(RuntimeError):  # the app is gone
                self.post_message(self._Delivered())

    def on_log_stream__delivered(self) -> None:
        frame, self._slot = self._slot, None
        if frame is None:
            return
        if self._selection is not None and not frame.asked:
            self.held = True
            return
        self.started, self.held = True, False
        self.frame = frame

    def watch_frame(self, before: Frame, frame: Frame) -> None:
        if frame.wrap != before.wrap:
            self.set_reactive(LogStream.sideways, 0)
        self.post_message(self.Moved(self))
        self.refresh()

    def on_resize(self) -> None:
        self._resize()

    def on_show(self) -> None:
        self.watch_growth(True)

    def on_hide(self) -> None:
        self.watch_growth(False)

    def on_unmount(self) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader, self._slot = None, None

    def _resize(self) -> None:
        width, height = self._columns, self.size.height
        if self._reader is not None and width > 0 and height > 0:
            self._reader.post(lambda view: view.resize(width, height))

    @property
    def _columns(self) -> int:
        return self.size.width - self._bar

    # -- drawing ------------------------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        self._paint = Paint(
            Sight(
                frame=self.frame,
                marks=self.marks,
                selected=self._selection,
                sideways=self.sideways,
                columns=self._columns,
                height=self.size.height,
                bar=self._bar,
                nothing=self._nothing,
            ),
            self.rich_style,
            lambda name: self.get_component_rich_style(f"log-stream--{name}", partial=True),
            lambda: selected_style(self.screen),
        )
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        return Strip([]) if self._paint is None else self._paint.line(y)

    @property
    def _nothing(self) -> str:
        """Why there are no rows."""
        if not self.path:
            return "no log"
        return nothing_words(self.frame, running=self.running, pending=self.pending) if self.started else "…"

    # -- selection ----------------------------------------------------------------------------------------------------

    @property
    def _selection(self) -> Selection | None:
        """None also for a widget that has just been taken off the screen."""
        return self.text_selection if self.is_attached else None

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Of the rows that are seen."""
        return selection.extract("\n".join(row.text for row in self.frame.rows)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        if selection is None and self.held and self._reader is not None:
            self._reader.post(lambda _view: None)
        self.refresh()

    # -- the mouse ----------------------------------------------------------------------------------------------------

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(lambda view: view.scroll(_WHEEL_ROWS))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(lambda view: view.scroll(-_WHEEL_ROWS))

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        event.stop()
        self.move_sideways(1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        event.stop()
        self.move_sideways(-1)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self._bar and event.get_content_offset(self) is not None and event.x >= self._columns:
            event.stop()
            self._grabbed = True
            self.capture_mouse()
            self._drag(event.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._grabbed:
            event.stop()
            self._drag(event.y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._grabbed:
            event.stop()
            self._grabbed = False
            self.release_mouse()

    def _drag(self, y: int) -> None:
        fraction = y / max(1, self.size.height - 1)
        self.move(lambda view: view.seek_fraction(fraction))
