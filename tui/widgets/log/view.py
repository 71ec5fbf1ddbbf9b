"""The log of an attempt, with its keys: streams, searching, attempts. Paths come from outside; it asks no engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from ....engine.logs.tail import printable
from ...acting.actions import BY_ID
from ...acting.bindings import bindings
from ...logs.reader import Move
from .panes import BOTH, LogPanes

if TYPE_CHECKING:  # what searches is loaded after the first picture: see pages.load_all
    from ...logs.query import Query
    from .hunt import Step

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


class LogView(LogPanes):
    """Posts what it cannot do itself."""

    BINDINGS: ClassVar = [
        *bindings("log"),
        *(
            Binding(",".join(BY_ID[name].keys), f"act('{name}')", BY_ID[name].label, show=False, id=name)
            for name in _SHARED
        ),
    ]

    class AttemptWanted(Message):
        """This other attempt of the task: `show` it."""

        def __init__(self, task: str, attempt: int) -> None:
            super().__init__()
            self.task, self.attempt = task, attempt

    class PagerWanted(Message):
        """This file in $PAGER, please."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    _unasked = False
    """The search that goes on is none that the user began."""

    # -- acts ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape goes on to the screen where there is nothing to clear here."""
        if action == "act" and parameters == ("clear",):
            return (self._searches.going and not self._unasked) or bool(self._search.display)
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
        others = [number for number in source.attempts if (number - source.attempt) * step > 0]
        if others:
            self.post_message(self.AttemptWanted(source.task, min(others) if step > 0 else max(others)))
        else:
            self._say("that is the first attempt" if step < 0 else "that is the newest attempt")

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
        self._unasked = False
        self._searches.begin(query, self.shown, self.active)
        self._arrange()

    def _go(self, step: Step) -> None:
        """To the next hit, wherever it is."""
        active = self.active
        stream = self._searches.go(active, step)
        if stream is None:
            self._ask(opened=True)
        elif stream is not active:
            self._activate(stream, focus=True)
