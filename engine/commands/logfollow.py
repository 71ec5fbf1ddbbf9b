"""Follows logs: what is written is shown when it is written, until nothing more can come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from ..adapters.inotify import LOOK_S, Writes
from ..adapters.state.mounts import on_network
from ..client.connection import Connection, Gone, Picture
from ..client.place import Place, say
from ..headless.text import field_text
from ..protocol.states import ACTIVE
from ..protocol.wire import TaskRow
from .logfeed import Feed
from .logprint import Printer
from .look import LiveLook, Look
from .rows import may_change, waits_text

if TYPE_CHECKING:
    from ..offline.look import OfflineLook

MOST_FOLLOWED = 200
"""Tasks that are followed at once."""
_LOOK_S = 2.0
"""Without an engine: between looks whether the tasks still run, and whether an engine has come."""
_DRAIN_S = 0.001


class Following:
    """Of the tasks that *feeds* names, through later attempts; with *attempt* of that one alone."""

    def __init__(self, place: Place, feeds: Mapping[str, Feed], printer: Printer, *, attempt: int | None) -> None:
        self._place = place
        self._feeds = feeds
        self._printer = printer
        self._attempt = attempt
        self._writes = Writes()
        self._look_s = LOOK_S if _elsewhere_written(feeds) else None
        self._waits: dict[str, int] = {}
        """By task, the attempt of which it was said why the cluster has not begun it."""

    def run(self, look: Look) -> None:
        """Returns when all of them have come to an end."""
        try:
            while True:
                if isinstance(look, LiveLook):
                    if self._live(look.connection):
                        return
                    from ..offline.look import offline_look

                    say("the engine has ended")
                    look = offline_look(self._place)
                connection = self._offline(cast("OfflineLook", look))
                if connection is None:
                    return
                look = LiveLook(connection)
        finally:
            self._writes.close()

    # -- with an engine -----------------------------------------------------------------------------------------------

    def _live(self, connection: Connection) -> bool:
        """False: the engine has gone."""
        try:
            with connection:
                while self._more(connection.wait_for_picture()):
                    self._writes.wait([connection.fileno()], self._look_s)
                    for _ in connection.messages(_DRAIN_S):
                        pass
        except Gone:
            return False
        return True

    def _more(self, picture: Picture) -> bool:
        """Show what has come; returns whether more may come."""
        rows = [row for row in picture.rows.values() if row.name in self._feeds]
        for row in rows:
            self._go_over(row)
        self._show()
        return any(self._may_write(row, picture.head.ended) for row in rows)

    def _go_over(self, row: TaskRow) -> None:
        """To the newest attempt. Those that came and went since the last look are shown, too."""
        feed = self._feeds[row.name]
        self._open(feed, row.attempt)
        wanted = self._attempt in (None, row.attempt)
        if wanted and row.pending and row.attempt not in (feed.attempt, self._waits.get(row.name)):
            self._waits[row.name] = row.attempt
            say(f"{field_text(row.name)} {waits_text(row)}")

    def _open(self, feed: Feed, newest: int) -> None:
        if self._attempt is not None:
            _ = feed.attempt or feed.open(self._attempt, None)
        else:
            for number in range(feed.attempt + 1, newest + 1):
                if feed.open(number, None) and number > 1:
                    say(f"{feed.name}: attempt {number}")
        self._writes.watch(feed.paths(max(1, newest)).dir)

    def _may_write(self, row: TaskRow, ended: bool) -> bool:
        if self._attempt is not None:
            return row.attempt == self._attempt and row.state in ACTIVE
        return row.state in ACTIVE or may_change(row, ended=ended)

    def _show(self) -> None:
        while sum(feed.drain() for feed in self._feeds.values()):
            pass
        self._printer.flush()

    # -- without one --------------------------------------------------------------------------------------------------

    def _offline(self, look: OfflineLook) -> Connection | None:
        """Follows what runs on, until it ends or an engine comes, which is returned."""
        while True:
            for name, feed in self._feeds.items():
                self._open(feed, look.attempts_of(name))
            self._show()
            if not any(look.runs_on(name) for name in self._feeds):
                self._show()
                return None
            self._writes.wait([], _LOOK_S)
            if (connection := self._place.attach()) is not None:
                return connection


def _elsewhere_written(feeds: Mapping[str, Feed]) -> bool:
    """Other hosts may write there, of which the kernel here does not tell."""
    return any(on_network(feed.paths(1).dir) for feed in list(feeds.values())[:1])
