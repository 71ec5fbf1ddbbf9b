"""A deck as a screen gets it from its files, where it has no engine: the picture, and answers. Nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..engine.client.place import Place
from ..engine.errors import EngineUnavailableError
from ..engine.protocol.wire import Delta, Ready, Snapshot, TaskRow, Tasks
from ..engine.serve.offline import OfflineScreen
from .background import in_thread
from .model import NO_ENGINE, Link, News

if TYPE_CHECKING:
    from ..engine.attempts.progress import LastProgress


class FilesPicture:
    """What the files told when they were looked at last."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._seen: OfflineScreen | None = None
        self._why = ""
        self._untold: list[TaskRow] | None = None
        """All rows, until `news` has told them."""
        self._rows: Mapping[str, TaskRow] = {}
        self._rest: Iterator[list[LastProgress]] = iter(())
        """What takes a file for each task, as far as it is still to be read."""
        self._metrics: dict[tuple[str, int], tuple[Mapping[str, float], Mapping[str, float]]] = {}
        """By task and attempt that is over, as far as they have been read."""
        self._reading = asyncio.Lock()
        """One at a time asks the files."""

    def forget(self) -> None:
        """Look at everything anew, and tell it, as something else has been shown meanwhile."""
        self._seen = self._untold = None
        self._rest = iter(())

    def look(self, why: str) -> None:
        """Blocks. See whether anything may be other than when this was called last. *why*: there is no engine that can
        be asked; "": none runs. Raises DeckError, or OSError, where the files tell nothing."""
        if self._seen is not None and why == self._why and not self._seen.outdated():
            return
        seen = OfflineScreen(self._place)
        self._untold = seen.rows()
        self._seen, self._why = seen, why

    async def news(self, link: Link) -> AsyncGenerator[News, None]:
        """What has not been told: *link* with what the user should know, and the picture; then what takes a file for
        each task, which whoever stops listening gets the next time."""
        if self._untold is not None and self._seen is not None:
            seen, rows = self._seen, [self._with_metrics(row) for row in self._untold]
            self._untold, self._rest = None, seen.metrics(self._metrics)
            self._rows = {row.name: row for row in rows}
            yield replace(link, text="\n".join(seen.notes(self._why)), as_of=seen.as_of)
            yield Snapshot(rev=0, total=len(rows), head=seen.head(), gpus=tuple(seen.gpus()))
            yield Tasks(rows)
            yield Ready(0)
        while (told := await in_thread(lambda: next(self._rest, None))) is not None:
            self._metrics.update(((name, number), (one.metrics, one.best)) for name, number, one in told)
            yield Delta(rev=0, rows=[self._with_metrics(self._rows[name]) for name, _, _ in told])

    async def answer(self, op: str, args: Mapping[str, Any]) -> Any:
        """To a request of READS, as an engine's. Raises DeckError."""
        async with self._reading:
            if (seen := self._seen) is None:
                raise EngineUnavailableError(NO_ENGINE)
            return await in_thread(lambda: seen.answer(op, args))

    def _with_metrics(self, row: TaskRow) -> TaskRow:
        told = self._metrics.get((row.name, row.attempt))
        return row if told is None else msgspec.structs.replace(row, metrics=told[0], best=told[1])
