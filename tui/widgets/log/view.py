"""The log of an attempt, with its keys: streams, searching, attempts. Paths come from outside; it asks no engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input, Static

from ....engine.logs.printable import printable
from ...acting.actions import bindings, bindings_of
from ...drawing.format import width_of
from ...logs.reader import GROWTH_S, Move
from ...logs.source import LogSource, neighbour
from ..filter_bar import LineInput
from .stream import GAP, LogStream, divider_words, status_words

if TYPE_CHECKING:
    from ...logs.query import Query
    from .hunt import LogSearches, Step


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a view is to be seen."""

    first: bool
    second: bool
    divider: bool
    second_height: int | None = None
    """None: all that is there."""


def alone(*, second: bool) -> Parts:
    """One stream is shown."""
    return Parts(not second, second, divider=False)


def together(height: int, first: int, second: int, *, compact: bool) -> Parts:
    """Both are, with *first* and *second* rows to show; the rows that there are include the divider's.

    *compact*: a stream without rows gets no room.
    """
    upper, lower = shares(max(2, height - 1), first, second)
    if compact and not first and second:
        upper, lower = 0, height
    only_first = not lower or (compact and not second)
    return Parts(upper > 0, not only_first, divider=not compact or bool(first and second), second_height=lower)


def shares(height: int, first: int, second: int) -> tuple[int, int]:
    """Rows for two streams that have *first* and *second* rows to show: what is short gets what it needs, the rest is
    the other's; else three to two."""
    if first + second <= height:
        return (height - second, second) if second else (height, 0)
    lower = height * 2 // 5
    if second <= lower:
        return height - second, second
    if first <= height - lower:
        return first, height - first
    return height - lower, lower


BOTH = "both"
_STATUS_MARGIN = 2
"""Cells beside the words of the status line."""


_MOVES: Mapping[str, Move] = {
    "down": lambda view: view.scroll(1),
    "up": lambda view: view.scroll(-1),
    "top": lambda view: view.home(),
    "bottom": lambda view: view.end(),
    "log_page_down": lambda view: view.page(1),
    "log_page_up": lambda view: view.page(-1),
}
_SIDEWAYS: Mapping[str, int] = {"log_left": -1, "log_right": 1}
"""By actions of the table."""
_SHARED = ("down", "up", "top", "bottom", "clear", "pager")
"""Actions of the table that mean the same in a log."""


class LogView(Vertical):
    """`show` a source. Streams that are shown together are not merged: files without times do not tell which line came
    first, so each has its own part of the view. Posts what it cannot do itself."""

    BINDINGS: ClassVar = [
        *bindings("log"),
        *bindings_of(*_SHARED),
    ]

    @dataclass
    class AttemptWanted(Message):
        """This other attempt of the task: `show` it."""

        task: str
        attempt: int

    @dataclass
    class PagerWanted(Message):
        """This file in $PAGER, please."""

        path: str

    follow: reactive[bool] = reactive(True, init=False)
    wrap: reactive[bool] = reactive(False, init=False)
    stream: reactive[str] = reactive(BOTH, init=False)
    """A label of the source, or "both"."""

    def __init__(
        self,
        *,
        classes: str | None = None,
        compact: bool = False,
        growth_s: float = GROWTH_S,
    ) -> None:
        """*compact*: rows alone, for the tail beside a table; a status line only while there is something to tell.
        *growth_s*: between two pictures of a log that grows."""
        super().__init__(classes=classes)
        self.source: LogSource | None = None
        self._compact = compact
        self._ready = False
        self._searches: LogSearches | None = None
        """The last search; made with the first one, so that the first picture need not wait for what searches."""
        self._unasked = False
        """The search that goes on is none that the user began."""
        self._watching = True
        self._note = ""
        self._first = LogStream(bar=not compact, growth_s=growth_s)
        self._second = LogStream(bar=not compact, growth_s=growth_s)
        self._divider = Static(classes="log-divider", markup=False)
        self._search = LineInput(placeholder="text, or /regex/, /regex/i", compact=True, classes="log-search")
        self._status = Static(classes="log-status", markup=False)
        self._active = self._first

    def compose(self) -> ComposeResult:
        yield self._first
        yield self._divider
        yield self._second
        self._search.display = False
        self._status.display = not self._compact
        yield self._search
        yield self._status

    # -- what is shown ------------------------------------------------------------------------------------------------

    @property
    def has_earlier(self) -> bool:
        """The task has an attempt before the one that is shown."""
        return self.source is not None and min(self.source.attempts, default=self.source.attempt) < self.source.attempt

    def show(self, source: LogSource | None) -> None:
        """The logs of an attempt, or none; of the rank that was chosen. Cheap for what is shown already."""
        before = self.source
        other = (before and (before.task, before.attempt)) != (source and (source.task, source.attempt))
        if before is not None and source is not None and not other:
            source = source.of_rank(before.rank)
        self._take(source, other=other)

    def show_rank(self, rank: int) -> None:
        """The logs of another process of the same attempt."""
        if self.source is not None and self.source.rank != rank:
            self._take(self.source.of_rank(rank), other=True)

    def _take(self, source: LogSource | None, *, other: bool) -> None:
        self.source = source
        if other:
            self._end_search()
            self.set_reactive(LogView.follow, True)
            self._active = self._first
        if self._ready:
            self._point()
            if other:
                self._activate(self._first)

    def on_mount(self) -> None:
        self._ready = True
        self._point()

    def focus(self, scroll_visible: bool = True) -> LogView:
        """Keys go to the stream that had them last."""
        self.active.focus(scroll_visible)
        return self

    def next_stream(self, step: int) -> bool:
        """Keys go to the stream below, or with -1 to the one above; False: there is none."""
        seen = self._seen
        at = seen.index(self.active) + step if self.active in seen else len(seen)
        if not 0 <= at < len(seen):
            return False
        self._activate(seen[at], focus=True)
        return True

    def enter(self, step: int) -> None:
        """Keys come from the view before: to the first stream; with -1 from the view after, to the last."""
        seen = self._seen or self.shown
        self._activate(seen[0 if step > 0 else -1], focus=True)

    def _activate(self, stream: LogStream, *, focus: bool = False) -> None:
        self._active = stream
        if focus or any(other.has_focus for other in (self._first, self._second) if other is not stream):
            stream.focus()
        if self._ready:
            self._take_active()

    def _take_active(self) -> None:
        if self.active.started:
            self.set_reactive(LogView.follow, self.active.frame.follow)
        self._tell()

    @property
    def _seen(self) -> list[LogStream]:
        """Of the streams that are shown those that have room."""
        return [stream for stream in self.shown if stream.display]

    @property
    def shown(self) -> tuple[LogStream, ...]:
        """The streams that are to be seen now, top first."""
        labels = self._labels
        if self.stream == BOTH and len(labels) > 1:
            return self._first, self._second
        return (self._first,) if not labels or self._label == labels[0] else (self._second,)

    @property
    def active(self) -> LogStream:
        """The stream that keys act on."""
        shown = self.shown
        return self._active if self._active in shown else shown[0]

    def watch_growth(self, on: bool) -> None:
        """Not while another screen covers this one."""
        self._watching = on
        for stream in (self._first, self._second):
            stream.watch_growth(on and stream in self.shown)

    @property
    def _labels(self) -> tuple[str, ...]:
        return self.source.labels if self.source else ()

    @property
    def _label(self) -> str:
        """The one stream that is chosen; the main one where the source does not have it."""
        return self.stream if self.stream in self._labels else (self._labels or ("",))[0]

    def _point(self) -> None:
        """Each stream to its file: the main one first, any other second."""
        paths = self.source.paths if self.source else ()
        running = self.source is not None and self.source.running
        pending = self.source is not None and self.source.pending
        others = dict(paths[1:])
        other = others.get(self._label) or next(iter(others.values()), "")
        for stream, path in ((self._first, paths[0][1] if paths else ""), (self._second, other)):
            stream.show(path, running=running, follow=self.follow, wrap=self.wrap, pending=pending)
        self.watch_growth(self._watching)
        self._arrange()

    def _arrange(self) -> None:
        """Give the streams their heights."""
        shown = self.shown
        self._status.display = bool(not self._compact or self._searching or self._note)
        height = self.size.height - self._status.display - self._search.display
        if len(shown) == 2:
            first, second = self._rows_of(self._first), self._rows_of(self._second)
            parts = together(height, first, second, compact=self._compact)
        else:
            parts = alone(second=self._second in shown)
        self._first.display, self._second.display, self._divider.display = parts.first, parts.second, parts.divider
        self._second.styles.height = "1fr" if parts.second_height is None else parts.second_height
        self._tell()

    @staticmethod
    def _rows_of(stream: LogStream) -> int:
        """What it has to show. One that has the keys and has not been read yet keeps a place, and so the keys."""
        return max(stream.frame.total, stream.has_focus and not stream.started)

    def on_resize(self, _event: events.Resize) -> None:
        self._arrange()

    def on_log_stream_moved(self, message: LogStream.Moved) -> None:
        message.stop()
        if message.stream is self.active:
            self.set_reactive(LogView.follow, message.stream.frame.follow)
        self._lead()
        self._arrange()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, LogStream):
            self._active = event.widget
            self._take_active()

    # -- words --------------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        source = self.source
        if source is None:
            return self._status.update("")
        if self._divider.display and len(source.paths) > 1:
            self._divider.update(Content(divider_words(*source.paths[1], self._second.frame, self.size.width)))
        if self._status.display:
            active, width = self.active, max(1, self.size.width - _STATUS_MARGIN)
            label = self._label_of(active)
            room = width - width_of(label) - GAP
            found = "" if self._searches is None else self._searches.words(active, self._label_of, room)
            words = status_words(source, label, active.frame, found, width)
            self._status.update(Content(self._note or words))
        return None

    def _label_of(self, stream: LogStream) -> str:
        if stream is self._first:
            return self._labels[0]
        return self._label if self.stream != BOTH else self._labels[1]

    def _say(self, note: str) -> None:
        """In place of the status until the next key."""
        self._note = note
        self._arrange()

    # -- follow, wrap, stream ------------------------------------------------------------------------------------------

    def watch_follow(self, on: bool) -> None:
        for stream in self.shown:
            stream.move(lambda view: view.set_follow(on))

    def watch_wrap(self, on: bool) -> None:
        for stream in (self._first, self._second):
            stream.move(lambda view: view.wrap(on))

    def watch_stream(self) -> None:
        if self._ready:
            self._end_search()
            self._point()
            if any(stream.has_focus for stream in (self._first, self._second)):
                self.focus()

    # -- a search ------------------------------------------------------------------------------------------------------

    def _lead(self) -> None:
        """Keys go to the stream that has a hit."""
        if self._searches is not None and (stream := self._searches.lead(self.active)) is not None:
            self._activate(stream)

    @property
    def _searching(self) -> bool:
        return self._searches is not None and self._searches.going

    def _end_search(self) -> None:
        if self._searches is not None:
            self._searches.end()
        if self._ready:
            self._arrange()

    def on_unmount(self) -> None:
        if self._searches is not None:
            self._searches.end()

    # -- acts ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape goes on to the screen where there is nothing to clear here."""
        if action == "act" and parameters == ("clear",):
            return (self._searching and not self._unasked) or bool(self._search.display)
        return True

    def action_act(self, name: str) -> None:
        """One of the table's actions."""
        if self._note:
            self._say("")
        if move := _MOVES.get(name):
            self.active.move(move)
            return
        if steps := _SIDEWAYS.get(name):
            self.active.move_sideways(steps)
            return
        match name:
            case "log_follow":
                self.follow = not self.follow
            case "log_wrap":
                self.wrap = not self.wrap
            case "log_streams":
                self._next_stream()
            case "log_rank":
                self._next_rank()
            case "log_attempt_back" | "log_attempt_on":
                self._want_attempt(-1 if name == "log_attempt_back" else 1)
            case "pager":
                if self.active.path:
                    self.post_message(self.PagerWanted(self.active.path))
            case _:
                self._act_search(name)

    def _act_search(self, name: str) -> None:
        match name:
            case "log_search":
                self._ask(opened=True)
            case "log_next" | "log_previous":
                self._go(1 if name == "log_next" else -1)
            case "log_error":
                self.first_error()
            case "clear":
                if self._search.display:
                    self._ask(opened=False)
                else:
                    self._end_search()
            case _:
                pass

    def first_error(self, *, unasked: bool = False) -> None:
        """Jump to the first line that tells of an error; n and N go to the others. *unasked*: the log begins there,
        so that there is no search of the user's to end."""
        from ...logs.query import ERRORS

        if self.source is not None and not self.source.rank:
            self.show_rank(self.source.blamed)
        self._hunt(ERRORS)
        self._unasked = unasked

    def _next_stream(self) -> None:
        if len(self._labels) < 2:
            return self._say("one file: stdout and stderr are merged")
        choices = (BOTH, *self._labels)
        self.stream = choices[(choices.index(self.stream) + 1) % len(choices)] if self.stream in choices else BOTH
        return None

    def _next_rank(self) -> None:
        source = self.source
        if source is None or source.ranks < 2:
            return self._say("one process: nothing starts several (launch)")
        return self.show_rank((source.rank + 1) % source.ranks)

    def _want_attempt(self, step: int) -> None:
        source = self.source
        if source is None:
            return
        attempt = neighbour(source.attempt, source.attempts, step)
        if attempt is None:
            self._say("that is the first attempt" if step < 0 else "that is the newest attempt")
        else:
            self.post_message(self.AttemptWanted(source.task, attempt))

    # -- searching ----------------------------------------------------------------------------------------------------

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._ask(opened=False)
        if not event.value:
            return
        from ...logs.query import parse

        try:
            self._hunt(parse(event.value))
        except ValueError as error:
            self._say(printable(str(error)))

    def _ask(self, *, opened: bool) -> None:
        self._search.display = opened
        self._arrange()
        if opened:
            self.screen.set_focus(self._search)  # at once: the next key is text
        else:
            self.focus()

    def _hunt(self, query: Query) -> None:
        """In all streams that are shown."""
        from .hunt import LogSearches

        self._unasked = False
        self._searches = self._searches or LogSearches()
        self._searches.begin(query, self.shown, self.active)
        self._arrange()

    def _go(self, step: Step) -> None:
        """To the next hit, wherever it is."""
        active = self.active
        stream = None if self._searches is None else self._searches.go(active, step)
        if stream is None:
            self._ask(opened=True)
        elif stream is not active:
            self._activate(stream, focus=True)
