"""Beside the table, the log of the task under its cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from textual.content import Content
from textual.timer import Timer

from ...engine.protocol.wire import TaskRow
from ..drawing.format import clean
from ..link.ask import Answer
from ..log_source import source_of
from ..logs.source import LogSource
from ..widgets.log.view import LogView
from ..widgets.waiting import PATIENCE_S, WORDS
from .deck_screen import DeckScreen

_SETTLE_S = 0.08
"""A cursor that rests this long has its task's log shown."""


class CursorLog:
    """Asks the engine where that log is, and has the screen's log view show it."""

    def __init__(self, screen: DeckScreen, cursor: Callable[[], str], shown: Callable[[], None]) -> None:
        """*cursor*: the name of the task under it; "": there is none. *shown*: another log is to be seen."""
        self._screen = screen
        self._cursor = cursor
        self._shown = shown
        self._of: tuple[str, int] = ("", 0)
        """Task and attempt whose log is shown."""
        self._pending = ""
        """Why that task is pending, as its title says."""
        self._settling: Timer | None = None
        self._waiting: Timer | None = None
        """For that log."""

    def moved(self) -> None:
        """The cursor is on another task, and may go on to the next."""
        if self._settling is not None:
            self._settling.stop()
        self._settling = self._screen.set_timer(_SETTLE_S, self.follow)

    def follow(self) -> None:
        """Show the newest log of the task under the cursor. Cheap where that is shown."""
        row = self._screen.deck.row(self._cursor())
        wanted = (row.name, row.attempt) if row is not None else ("", 0)
        pending = row.pending if row is not None else ""
        if wanted == self._of:
            if pending != self._pending:
                self._pending = pending
                self._view.border_title = _title(row)
            return
        self._of, self._pending = wanted, pending
        self._view.border_title = _title(row)
        self._late(row if row is not None and row.attempt else None)
        if row is None or not row.attempt:
            self._view.show(None)
        else:
            self._screen.gpudeck.ask("show", self._answered, topic="cursor", tasks=[row.name])

    def source(self, name: str) -> LogSource | None:
        """Where the newest log of a task is, if it is the one that is shown."""
        row, source = self._screen.deck.row(name), self._view.source
        if row is None or source is None or (source.task, source.attempt) != (row.name, row.attempt):
            return None
        return source

    @property
    def _view(self) -> LogView:
        return self._screen.query_one(LogView)

    def _late(self, row: TaskRow | None) -> None:
        """Another task's log does not stay under the name of *row* while its own is waited for. None: it has come."""
        if self._waiting is not None:
            self._waiting.stop()
        self._waiting = None if row is None else self._screen.set_timer(PATIENCE_S, lambda: self._none(row, WORDS))

    def _none(self, row: TaskRow | None, why: str) -> None:
        self._view.show(None)
        self._view.border_title = Content.assemble(_title(row), f" · {clean(why)}" if why else "")

    def _answered(self, answer: Answer) -> None:
        row = self._screen.deck.row(self._of[0])
        if not answer.ok or not answer.result:
            self._late(None)
            self._none(row, answer.error)
            return
        details: Mapping[str, Any] = answer.result[0]
        if details["name"] == self._of[0]:
            self._late(None)
            self._view.border_title = _title(row)
            self._view.show(source_of(details, self._of[1]))
            self._shown()


def _title(row: TaskRow | None) -> Content:
    """Whose log it is."""
    if row is None:
        return Content("")
    attempt = f" · attempt {row.attempt}" if row.attempt > 1 else "" if row.attempt else " · has not started"
    pending = f" · pending: {clean(row.pending)}" if row.pending else ""
    return Content(clean(row.name) + attempt + pending)
