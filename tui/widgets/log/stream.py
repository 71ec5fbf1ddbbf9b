"""One log file on the screen. A thread reads it; this draws the last frame that the thread has delivered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from ....engine.logs.printable import printable
from ....engine.text import size_text
from ...drawing.format import cut_middle, width_of
from ...logs.lines import Colour, Sgr
from ...logs.reader import Move, Reader
from ...logs.source import LogSource
from ...logs.viewport import Frame, Row
from ..line_view import selected_style

if TYPE_CHECKING:
    from ...logs.search import Hits

GAP = 2
"""Cells between two parts of the status."""
_LEAST_TITLE = 8
_LEAST_NAME, _MOST_NAME = 4, 32
"""Cells of what is searched for."""


def divider_words(label: str, path: str, frame: Frame, width: int) -> str:
    """The line above the second stream."""
    size = size_text(frame.size) if frame.size else "not there" if frame.missing else "empty"
    words = f"── {printable(label)}  {printable(path.rpartition('/')[2])}  {size} "
    return words + "─" * max(0, width - len(words))


def status_words(source: LogSource, label: str, frame: Frame, search: str, width: int) -> str:
    """The line below all, in *width* cells: what matters least goes first, what a search has found last."""
    search, label = printable(search), printable(label)
    parts = {
        "title": printable(source.task),
        "attempt": f"attempt {source.attempt} of {source.attempts[-1]}" if len(source.attempts) > 1 else "",
        "rank": f"rank {source.rank} of {source.ranks}" if source.ranks > 1 else "",
        "label": label,
        "size": size_text(frame.size),
        "percent": f"{frame.percent}%",
        "follow": "following" if frame.follow and source.running else "",
        "wrap": "wrapped" if frame.wrap else "",
        "gone": "gone" if frame.missing and frame.size else "",
        "search": cut_middle(search, max(1, width - width_of(label) - GAP)),
    }
    for name in ("wrap", "size", "percent", "follow", "attempt"):
        if width_of(_joined(parts.values())) <= width:
            break
        parts[name] = ""
    over = width_of(_joined(parts.values())) - width
    if over > 0:
        room = width_of(parts["title"]) - over
        parts["title"] = cut_middle(parts["title"], room) if room >= _LEAST_TITLE else ""
    return _joined(parts.values())


def _joined(parts: Iterable[str]) -> str:
    return (" " * GAP).join(part for part in parts if part)


def search_words(name: str, here: str, others: Sequence[tuple[str, int, bool]], width: int) -> str:
    """How a search stands: *here* in the stream that keys act on ("": nothing found), of the *others* the label, the
    number of hits and whether it is still being searched. In *width* cells the name is cut, not what was found."""
    found = _found(here, others)
    return f"{cut_middle(name, min(_MOST_NAME, max(_LEAST_NAME, width - width_of(found) - 1)))} {found}"


def _found(here: str, others: Sequence[tuple[str, int, bool]]) -> str:
    elsewhere = ", ".join(f"{count:,} in {label}" for label, count, _ in others if count)
    if here:
        return here + (f", {elsewhere}" if elsewhere else "")
    if elsewhere:
        return f"not here, {elsewhere}"
    return "…" if any(going for _, _, going in others) else "not found"


def nothing_words(frame: Frame, *, running: bool, pending: bool) -> str:
    """For a file without anything to show."""
    if frame.problem:
        return f"cannot be read: {printable(frame.problem)}"
    if frame.missing and pending:
        return "waits in the cluster's queue: nothing written yet"
    if frame.missing:
        return "nothing written yet" if running else "the file is not there (any more)"
    return "empty so far" if running else "empty"


Overlay = tuple[int, int, Style]
"""Characters from and to, and what is put over their looks; later ones win."""


@lru_cache(maxsize=1024)
def style_of(sgr: Sgr) -> Style:
    return Style(
        color=_colour(sgr.fg), bgcolor=_colour(sgr.bg), bold=sgr.bold or None, dim=sgr.dim or None,
        italic=sgr.italic or None, underline=sgr.underline or None, reverse=sgr.reverse or None,
        strike=sgr.strike or None,
    )  # fmt: skip


def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


def segments(row: Row, base: Style, overlays: Sequence[Overlay]) -> list[Segment]:
    """The row's text, each piece with its looks over *base*."""
    text = row.text
    looks = [*((start, end, style_of(sgr)) for start, end, sgr in row.spans), *overlays]
    if not looks:
        return [Segment(text, base)]
    cuts = sorted({0, len(text), *(min(at, len(text)) for start, end, _ in looks for at in (start, end))})
    found: list[Segment] = []
    for start, end in pairwise(cuts):
        style = base
        for first, last, look in looks:
            if first <= start and end <= last:
                style += look
        found.append(Segment(text[start:end], style))
    return found


def window(pieces: list[Segment], start: int, width: int, base: Style) -> list[Segment]:
    """Cells *start* to *start* + *width* of a row, filled up with blanks."""
    if not all(piece.text.isascii() for piece in pieces):
        return list(Strip(pieces).crop_extend(start, start + width, base))
    found: list[Segment] = []
    rest = width
    for text, style, _ in pieces:
        kept = text[start : start + rest]
        start = max(0, start - len(text))
        if kept:
            found.append(Segment(kept, style))
            rest -= len(kept)
    if rest:
        found.append(Segment(" " * rest, base))
    return found


def placed(pieces: list[Segment], x: int, y: int) -> list[Segment]:
    """With the place in the text that a selection by mouse needs: characters from *x* on, in line *y*."""
    found: list[Segment] = []
    for text, style, _ in pieces:
        found.append(Segment(text, _at(style or Style.null(), x, y)))
        x += len(text)
    return found


@lru_cache(maxsize=4096)
def _at(style: Style, x: int, y: int) -> Style:
    return style + Style.from_meta({"offset": (x, y)})


def thumb(frame: Frame, height: int) -> tuple[int, int]:
    """The part of the scroll bar that stands for what is seen, by bytes, because nobody has counted the lines; (0, 0)
    where all is seen."""
    if not frame.rows or (frame.at_start and frame.at_end):
        return 0, 0
    shown = max(1, round(height * (frame.below - frame.top) / max(1, frame.size)))
    first = height - shown if frame.at_end else min(height - shown, int(height * frame.top / max(1, frame.size)))
    return first, first + shown


def occurrences(text: str, needle: str) -> list[tuple[int, int]]:
    """Where *needle* stands in *text*, case of ASCII letters aside."""
    if not needle:
        return []
    lower, wanted = _lower(text), _lower(needle)
    found: list[tuple[int, int]] = []
    at = lower.find(wanted)
    while at >= 0 and len(found) < 200:
        found.append((at, at + len(needle)))
        at = lower.find(wanted, at + len(needle))
    return found


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _lower(text: str) -> str:
    return text.translate(_ASCII_LOWER)


@dataclass(frozen=True, slots=True)
class Marks:
    """What of a search is to be seen."""

    needle: str = ""
    """Text that is marked wherever it stands."""
    hits: Hits | None = None
    current: int = -1
    """The line that a search stands on."""


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

    @dataclass
    class Moved(Message):
        """There is something else to see, or a search has got on."""

        stream: LogStream

    class _Delivered(Message, bubble=False):
        """A frame lies in the slot."""

    def __init__(self, *, bar: bool, growth_s: float) -> None:
        """*growth_s*: between two pictures of a log that grows."""
        super().__init__()
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
        self._base = Style.null()
        self._looks: dict[str, Style] = {}
        """Of parts, looked up once for all lines that are drawn at once, as is the base of them."""
        self._thumb = (0, 0)
        self.started = False
        """A frame of this path has come."""
        self.held = False
        """There is more to see, which would move the text that is selected."""

    # -- what is shown ------------------------------------------------------------------------------------------------

    def show(self, path: str, *, running: bool, follow: bool, wrap: bool, pending: bool) -> None:
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
        if self.display:  # with what it is in; by itself it is hidden while it has nothing to show yet
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
        self._base, self._looks = self.rich_style, {}
        self._thumb = thumb(self.frame, self.size.height)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        rows, base = self.frame.rows, self._base
        if y < len(rows):
            pieces = segments(rows[y], base, self._overlays(rows[y], y))
        elif y == 0:
            pieces = [Segment(self._nothing, base + self._look("note"))]
        else:
            pieces = []
        drawn = placed(window(pieces, self.sideways, self._columns, base), self.sideways, y)
        if self._bar:
            drawn.append(self._bar_at(y))
        return Strip(drawn, self.size.width)

    def _overlays(self, row: Row, y: int) -> list[Overlay]:
        marks, found = self.marks, list[Overlay]()
        end = len(row.text)
        if row.note:
            found.append((end - row.note, end, self._look("note")))
        if row.line == marks.current:
            found.append((0, end, self._look("current")))
        elif marks.hits is not None and not marks.needle and row.line in marks.hits:
            found.append((0, end, self._look("hit-line")))
        if marks.needle:
            found += [(first, last, self._look("hit")) for first, last in occurrences(row.text, marks.needle)]
        selection = self._selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            first, last = span
            found.append((first, end if last == -1 else last, selected_style(self.screen)))
        return found

    def _look(self, part: str) -> Style:
        if part not in self._looks:
            self._looks[part] = self.get_component_rich_style(f"log-stream--{part}", partial=True)
        return self._looks[part]

    def _bar_at(self, y: int) -> Segment:
        first, last = self._thumb
        if not last:
            return Segment(" ", self._base)
        inside = first <= y < last
        return Segment("┃" if inside else "│", self._base + self._look("thumb" if inside else "bar"))

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
