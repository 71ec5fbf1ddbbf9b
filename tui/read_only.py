"""A deck that is only looked at: its engine is followed where one runs, else its files tell, and nothing is changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import msgspec

from ..engine.client.connection import Connection, Gone
from ..engine.client.place import Place
from ..engine.errors import DeckError, EngineUnavailableError, UsageError
from ..engine.protocol.wire import Delta, Ready, Snapshot, TaskRow, Tasks
from ..engine.serve.offline import READS, OfflineScreen
from .background import begun, in_thread
from .client import DeckClient
from .model import Link, News

_LOOK_S = 2.0
"""How often it is seen whether the files have changed."""
_UNREACHABLE_S = 10.0
"""How often an engine that does not answer, or that runs elsewhere, is tried again."""
_SOON_S = 0.1
"""From the end of an engine to a look at what it has left."""
_SHARE = 10
"""A large deck takes long to read: it is read at most this part of the time."""


class ReadOnlyClient(DeckClient):
    """Never starts an engine, and refuses what would change the deck."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._look: OfflineScreen | None = None
        """What the files tell, as it is shown; None: an engine is followed."""
        self._why = ""
        """Why the engine that has the deck cannot be followed."""
        self._metrics: dict[tuple[str, int], tuple[Mapping[str, float], Mapping[str, float]]] = {}
        """By task and attempt that is over, as far as they have been read."""
        self._reading = asyncio.Lock()
        """One at a time asks the files."""

    def open(self) -> Future[Any]:
        """See what there is at once. The result raises DeckError where that is nothing."""
        self._opening = begun(self._see)
        return self._opening

    async def request(self, op: str, /, **args: Any) -> Any:
        """Raises UsageError for what changes something, and what an engine's answer raises."""
        if op not in READS:
            raise UsageError(f"read-only: {op} would change the deck")
        await self._settled.wait()
        if (look := self._look) is None:
            return await super().request(op, **args)
        async with self._reading:
            return await in_thread(lambda: look.answer(op, args))

    def silence(self) -> str:
        return "the deck's files take long to read" if self._engine is None else super().silence()

    async def news(self) -> AsyncGenerator[News, None]:
        seeing: Awaitable[Connection | OfflineScreen | None] = asyncio.wrap_future(self._opening or self.open())
        while True:
            began, wait_s = time.monotonic(), _LOOK_S
            try:
                seen = await seeing
                if isinstance(seen, Connection):
                    self._look = None
                    async for each in self._follow(seen):
                        yield replace(each, read_only=True) if isinstance(each, Link) else each
                elif seen is not None:
                    async for each in self._show(seen):
                        yield each
            except Gone:  # that is told with what the files tell then
                self._ask(None, comes=True)
                began, wait_s = time.monotonic(), _SOON_S
            except DeckError as error:
                self._ask(None)
                yield Link("failed", str(error), read_only=True)
            await self._wait(max(_UNREACHABLE_S if self._why else wait_s, _SHARE * (time.monotonic() - began)))
            self._again.clear()
            seeing = in_thread(self._see)

    def _see(self) -> Connection | OfflineScreen | None:
        """Blocks. What tells of the deck now: its engine, or its files; None: those tell what they did."""
        shown, before = self._look, self._why
        if shown is not None and not before and not shown.outdated():
            return None
        self._why = ""
        try:
            connection = attached(self._place)
            connection.watch()
        except EngineUnavailableError as error:
            self._why = str(error)
        else:
            return connection
        return OfflineScreen(self._place) if shown is None or before != self._why or shown.outdated() else None

    async def _show(self, look: OfflineScreen) -> AsyncGenerator[News, None]:
        """What takes a file for each task comes after the picture."""
        rows = [self._with_metrics(row) for row in await in_thread(look.rows)]
        self._look = look
        self._ask(None)
        yield Link("files", "\n".join(look.notes(self._why)), as_of=look.as_of, read_only=True)
        yield Snapshot(rev=0, total=len(rows), head=look.head(), gpus=tuple(look.gpus()))
        yield Tasks(rows)
        yield Ready(0)
        named, batches = {row.name: row for row in rows}, look.metrics(self._metrics)
        while (told := await in_thread(lambda: next(batches, None))) is not None:
            self._metrics.update(((name, number), (one.metrics, one.best)) for name, number, one in told)
            yield Delta(rev=0, rows=[self._with_metrics(named[name]) for name, _, _ in told])

    def _with_metrics(self, row: TaskRow) -> TaskRow:
        told = self._metrics.get((row.name, row.attempt))
        return row if told is None else msgspec.structs.replace(row, metrics=told[0], best=told[1])


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
