"""Waits until tasks have come to an end, whichever engine runs their deck meanwhile. Blocking."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from .client.attach import has_engine
from .client.connection import Connection, Gone, SaidGoodbye
from .client.place import Place
from .errors import UsageError
from .protocol.states import DONE, may_change
from .protocol.wire import Bye, TaskRow

_AFTER_GOODBYE_S = 5.0
"""How long the next engine is waited for when one has ended (a service that is started again)."""
_AFTER_CRASH_S = 15.0
"""The same when one was killed: systemd starts the next one after ten seconds."""
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Waited:
    rows: Sequence[TaskRow]
    how: Literal["settled", "time is over", "no engine", "elsewhere"]
    """settled: nothing more becomes of them without a user; no engine: the same, as long as none runs; elsewhere: only
    another machine can tell."""
    left: Sequence[TaskRow] = ()
    """Where the time is over, or no engine is left: those of which something may still become."""

    @property
    def open(self) -> list[TaskRow]:
        """Those that are not done."""
        return [row for row in self.rows if row.state not in DONE]


def wait(place: Place, selectors: Sequence[str], timeout_s: float | None = None) -> Waited:
    """Wait for the tasks that *selectors* mean now; for all where there are none. Raises DeckError."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    held = has_engine(place.path, place.options)
    connection = place.attach()
    if held and connection is None:  # it was killed while it was being asked
        connection = _next_engine(place, _AFTER_CRASH_S, deadline)
    while connection is not None:
        with connection:
            try:
                return _wait(place, connection, selectors, deadline)
            except Gone as gone:
                patience_s = _AFTER_GOODBYE_S if gone.goodbye else _AFTER_CRASH_S
        connection = _next_engine(place, patience_s, deadline)
    from .serve.offline import offline_look

    found = offline_look(place)
    rows, ended = _counted(found.rows(selectors)), found.head().ended
    left = [row for row in rows if may_change(row, ended=ended)]
    waited = Waited(rows, "elsewhere" if found.deck.elsewhere else "no engine", left)
    return waited if waited.open else Waited(waited.rows, "no engine")


def _counted(rows: Sequence[TaskRow]) -> Sequence[TaskRow]:
    """What has left the task file counts for nothing, unless nothing else is meant."""
    return [row for row in rows if not row.gone] or rows


def _next_engine(place: Place, patience_s: float, deadline: float | None) -> Connection | None:
    until = time.monotonic() + patience_s
    until = until if deadline is None else min(until, deadline)
    while time.monotonic() < until:
        if (connection := place.attach()) is not None:
            return connection
        time.sleep(_LOOK_S)
    return None


def _wait(place: Place, connection: Connection, selectors: Sequence[str], deadline: float | None) -> Waited:
    """What it returns, the deck's files tell, too: who looks at the results next reads these."""
    chosen: set[str] = set(connection.request("select", select=list(selectors))) if selectors else set()
    tell = _Standstill(place.say)
    while True:
        picture = connection.picture
        if picture is None or not picture.whole:
            picture = connection.wait_for_picture()
        rows = _counted(
            [row for row in picture.rows.values() if row.name in chosen or (not chosen and not row.left_out)]
        )
        open_ = [row for row in rows if may_change(row, ended=picture.head.ended)]
        if not open_:
            with suppress(Gone, UsageError):  # it has ended, all written; or, an older one, knows no such request
                connection.request("written")
            return Waited(rows, "settled")
        if picture.head.spent and all(row.state in ("waiting", "queued", "backoff") for row in open_):
            place.say(f"{picture.head.barred}: more of it lets the rest start")
            return Waited(rows, "settled")
        tell(open_, picture.head.paused)
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return Waited(rows, "time is over", open_)
        if isinstance(message := next(connection.messages(left), None), Bye):
            raise SaidGoodbye(f"the engine has ended: {message.why}")


class _Standstill:
    """Says once that only a user can end the waiting."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told = ""

    def __call__(self, rows: Sequence[TaskRow], paused: str) -> None:
        held = sum(row.held for row in rows)
        waits = all(row.state in ("waiting", "queued") for row in rows)
        text = "the deck is paused: `gpudeck unpause`" if paused and waits else ""
        if not text and held == len(rows) and waits:
            text = "only held tasks are left: `gpudeck release SEL`"
        if text and text != self._told:
            self._say(f"waiting, but {text}")
        self._told = text
