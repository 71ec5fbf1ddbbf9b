"""A deck that is only looked at: its engine is followed where one runs, else its files tell, and nothing is changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ...engine.client.connection import Connection
from ...engine.client.place import Place
from ...engine.errors import DeckError, EngineUnavailableError, UsageError
from ...engine.protocol.wire import TaskRow
from ...engine.serve.offline import READS, OfflineScreen
from ..model import Change, Link
from .ask import PATIENCE_S
from .feed import Feed

_LOOK_S = 2.0
"""How often it is seen whether the files have changed."""
_UNREACHABLE_S = 10.0
"""How often an engine that does not answer, or that runs elsewhere, is tried again."""
_SHARE = 10
"""A large deck takes long to read: it is read at most this part of the time."""


class ReadOnlyFeed(Feed):
    """Never starts an engine."""

    def __init__(self, place: Place) -> None:
        super().__init__(lambda _vanished: attached(self.place))
        self.place = replace(place, tell=self.say)
        self._look: OfflineScreen | None = None
        self._why = ""
        """Why the engine that has the deck cannot be followed."""
        self._metrics: dict[tuple[str, int], tuple[Mapping[str, float], Mapping[str, float]]] = {}
        """By task and attempt that is over, as far as they have been read."""
        self._shown = threading.Event()
        """The files tell, not an engine."""

    def door(self) -> Door:
        """For the thread that asks."""
        return Door(self)

    def look(self, timeout_s: float) -> OfflineScreen | None:
        """What the files tell, as it is shown; None: an engine is followed, or nothing is known for so long."""
        return self._look if self._shown.wait(timeout_s) else None

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._closing:
            began = time.monotonic()
            try:
                followed = self._follow_or_look()
            except DeckError as error:
                followed = False
                self._fail(error)
            took_s = 0.0 if followed else time.monotonic() - began
            if not followed:
                self._again.wait(max(_UNREACHABLE_S if self._why else _LOOK_S, _SHARE * took_s))
            self._again.clear()

    def _follow_or_look(self) -> bool:
        """True: an engine was followed, until it was gone."""
        if self._look is not None and not self._why and not self._look.outdated():
            return False
        before, self._why = self._why, ""
        try:
            connection = self._connection = self._open(False)
        except EngineUnavailableError as error:
            self._why = str(error)
        else:
            self._shown.clear()
            self._look = None
            self.opened.set()
            self._follow(connection)
            self._again.wait(0.1)
            return True
        if self._look is None or before != self._why or self._look.outdated():
            self._show(OfflineScreen(self.place))
        return False

    def _show(self, look: OfflineScreen) -> None:
        rows = {row.index: self._with_metrics(row) for row in look.rows()}
        head, gpus = look.head(), tuple(look.gpus())
        link = Link("files", "\n".join(look.notes(self._why)), as_of=look.as_of, read_only=True)

        def put(change: Change) -> None:
            change.reset, change.rows, change.total, change.whole = True, dict(rows), len(rows), True
            change.head, change.gpus, change.link = head, gpus, link

        self._look = look
        self._put(put)
        self._shown.set()
        self.opened.set()
        self._read_metrics(look, rows)

    def _read_metrics(self, look: OfflineScreen, rows: Mapping[int, TaskRow]) -> None:
        """What takes a file for each task comes after the picture."""
        named = {row.name: row for row in rows.values()}
        for told in look.metrics(self._metrics):
            if self._closing:
                return
            self._metrics.update(((name, number), (one.metrics, one.best)) for name, number, one in told)
            news = {named[name].index: self._with_metrics(named[name]) for name, _, _ in told}
            self._put(lambda change, news=news: change.rows.update(news))

    def _with_metrics(self, row: TaskRow) -> TaskRow:
        told = self._metrics.get((row.name, row.attempt))
        return row if told is None else msgspec.structs.replace(row, metrics=told[0], best=told[1])

    def _link(self, link: Link) -> None:
        """That an engine has gone is told with what the files tell then."""
        if link.kind not in ("restarting", "over"):
            super()._link(replace(link, read_only=True))


class Door:
    """Answers a screen that only looks, and refuses it everything else. For the thread that asks."""

    def __init__(self, feed: ReadOnlyFeed) -> None:
        self._feed = feed
        self._connection: Connection | None = None

    def request(self, op: str, /, **args: Any) -> Any:
        """Raises UsageError for what changes something, and what a connection raises."""
        if op not in READS:
            raise UsageError(f"read-only: {op} would change the deck")
        look = self._feed.look(0)
        if look is None and self._connection is None:
            self._connection = self._feed.place.attach()
        if self._connection is not None and look is None:
            return self._connection.request(op, **args)
        look = look or self._feed.look(PATIENCE_S)
        if look is None:
            raise EngineUnavailableError("the engine has just gone, and the deck's files have not been read yet")
        return look.answer(op, args)

    def silence(self) -> str:
        if self._connection is not None:
            return self._connection.silence()
        return "the deck's files take long to read"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def attached(place: Place) -> Connection:
    """The engine that runs the deck. Raises EngineUnavailableError: none does (then it says nothing), or why it cannot
    be asked."""
    connection = place.attach()
    if connection is None:
        raise EngineUnavailableError("")
    return connection


def refuse_unreadable(place: Place) -> None:
    """Raises DeckError where there is nothing to look at."""
    try:
        attached(place).close()
    except EngineUnavailableError:
        OfflineScreen(place)
