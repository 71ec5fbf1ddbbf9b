"""A deck as a screen gets it from its files, where it has no engine: the picture, and answers. Nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from ..engine.client.place import Place
from ..engine.protocol.wire import Delta, Ready, Snapshot, TaskRow, Tasks
from ..engine.serve.offline import OfflineScreen
from .background import in_thread
from .model import Link, News


class FilesPicture:
    """What the files told when they were looked at last."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._seen: OfflineScreen | None = None
        self._why = ""
        self._is_new = False
        """`news` has not told it."""
        self._metrics: dict[tuple[str, int], tuple[Mapping[str, float], Mapping[str, float]]] = {}
        """By task and attempt that is over, as far as they have been read."""
        self._reading = asyncio.Lock()
        """One at a time asks the files."""

    def look(self, why: str) -> bool:
        """Blocks. Whether `news` has something to tell. *why*: there is no engine that can be asked; "": none runs.
        Raises DeckError where the files tell nothing."""
        if self._seen is None or why != self._why or self._seen.outdated():
            self._seen, self._why, self._is_new = OfflineScreen(self._place), why, True
        return self._is_new

    async def news(self, link: Link) -> AsyncGenerator[News, None]:
        """*link*, with what the user should know, and the picture. What takes a file for each task comes after it."""
        seen, self._is_new = self._looked, False
        yield replace(link, text="\n".join(seen.notes(self._why)), as_of=seen.as_of)
        async with self._reading:
            rows = [self._with_metrics(row) for row in await in_thread(seen.rows)]
        yield Snapshot(rev=0, total=len(rows), head=seen.head(), gpus=tuple(seen.gpus()))
        yield Tasks(rows)
        yield Ready(0)
        named, batches = {row.name: row for row in rows}, seen.metrics(self._metrics)
        while (told := await in_thread(lambda: next(batches, None))) is not None:
            self._metrics.update(((name, number), (one.metrics, one.best)) for name, number, one in told)
            yield Delta(rev=0, rows=[self._with_metrics(named[name]) for name, _, _ in told])

    async def answer(self, op: str, args: Mapping[str, Any]) -> Any:
        """To a request of READS, as an engine's. Raises DeckError."""
        async with self._reading:
            seen = self._looked
            return await in_thread(lambda: seen.answer(op, args))

    @property
    def _looked(self) -> OfflineScreen:
        assert self._seen is not None, "look comes first"
        return self._seen

    def _with_metrics(self, row: TaskRow) -> TaskRow:
        told = self._metrics.get((row.name, row.attempt))
        return row if told is None else msgspec.structs.replace(row, metrics=told[0], best=told[1])
