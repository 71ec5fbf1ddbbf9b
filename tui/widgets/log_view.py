"""The log of an attempt, with its keys: streams, searching, attempts. Paths come from outside; it asks no engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from ...engine.logs.tail import printable
from ..actions import BY_ID
from ..bindings import bindings
from ..logs.reader import Move
from .log_panes import BOTH, LogPanes

if TYPE_CHECKING:  # what searches is loaded after the first picture: see pages.load_all
    from ..logs.query import Query
    from .log_hunt import Step

_MOVES: Mapping[str, Move] = {
    "down": lambda view: view.scroll(1),
    "up": lambda view: view.scroll(-1),
    "top": lambda view: view.home(),
    "bottom": lambda view: view.end(),
    "log_page_down": lambda view: view.page(1),
    "log_page_up": lambda view: view.page(-1),
}
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
        Binding("left", "sideways(-1)", "left", show=False),
        Binding("right", "sideways(1)", "right", show=False),
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

    # -- acts ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape goes on to the screen where there is nothing to clear here."""
        if action == "act" and parameters == ("clear",):
            return self._searches.going or bool(self._search.display)
        return True

    def action_act(self, name: str) -> None:
        """One of the table's actions."""
        if self._note:
            self._say("")
        if move := _MOVES.get(name):
            self.active.move(move)
            return
        match name:
            case "log_follow":
                self.follow = not self.follow
            case "log_wrap":
                self.wrap = not self.wrap
            case "log_streams":
                self._next_stream()
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

    def action_sideways(self, steps: int) -> None:
        self.active.move_sideways(steps)

    def first_error(self) -> None:
        """Jump to the first line that tells of an error; n and N go to the others."""
        from ..logs.query import ERRORS

        self._hunt(ERRORS)

    def _next_stream(self) -> None:
        if len(self._labels) < 2:
            return self._say("one file: stdout and stderr are merged")
        choices = (BOTH, *self._labels)
        self.stream = choices[(choices.index(self.stream) + 1) % len(choices)] if self.stream in choices else BOTH
        return None

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
        from ..logs.query import parse

        try:
            self._hunt(parse(event.value))
        except ValueError as error:
            self._say(printable(str(error)))

    def _ask(self, *, opened: bool) -> None:
        self._search.display = opened
        self._arrange()
        if opened:
            self._search.focus()
        else:
            self.focus()

    def _hunt(self, query: Query) -> None:
        """In all streams that are shown."""
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
