"""The screen's line to a deck: its engine is followed, asked, and brought back when it vanishes; where there is none,
the deck's files tell."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..engine.client.connection import Connection, Gone, silent_engine
from ..engine.client.place import Place
from ..engine.decks.options import Purpose
from ..engine.errors import DeckError, EngineUnavailableError, UsageError
from ..engine.protocol.wire import READS, Delta
from .background import begun, in_thread
from .connection import AsyncConnection, live_link
from .model import NO_ENGINE, Link, News

if TYPE_CHECKING:
    from .files_picture import FilesPicture

LOOK_S = 1.0
"""Between looks at what has changed where no engine is followed."""
_SHARE = 10
"""A large deck takes long to read: it is read at most this part of the time."""
_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait before an engine that cannot be reached, or that did not last, is tried again."""
_STEADY_S = 10.0
"""An engine that lived this long is not one that dies of its start."""


class DeckClient:
    """Follows a deck with `news`, and asks meanwhile. An engine that has vanished is replaced; after a goodbye none is
    started unasked, but one that another shell starts is followed."""

    def __init__(
        self, place: Place, *, takeover: bool = False, said: Sequence[str] = (), read_only: bool = False
    ) -> None:
        """*said*: lines that were told before there was a screen, for its users, too. *read_only*: no engine is ever
        started, and what would change the deck is refused."""
        self._said = list(said)
        """Lines that a command would have printed beside its output."""
        self._place = replace(place, tell=self._said.append)
        self._takeover, self._read_only = takeover, read_only
        self._opening: Future[Connection | None] | None = None
        self._again = asyncio.Event()
        self._link = Link("files" if read_only else "connecting", read_only=read_only)
        """How the screen stands with the engine."""
        self._vanished = False
        """The engine that was followed last has, and is to be replaced."""
        self._why = ""
        """Why an engine that is there cannot be followed."""
        self._engine: AsyncConnection | None = None
        self._files: FilesPicture | None = None
        """None: they have not been looked at."""
        self._look_at = 0.0
        """When the files may be looked at again."""
        self._settled = asyncio.Event()
        """It is known who answers: the engine, the files, or nobody."""

    def open(self) -> Future[Connection | None]:
        """See what there is at once, before there is a loop. The result raises DeckError: why nothing can be shown."""
        self._opening = begun(self._first_look if self._read_only else self._start)
        return self._opening

    def reconnect(self) -> None:
        """Try again now, after a goodbye or a failure."""
        if self._engine is None:
            self._again.set()

    async def request(self, op: str, /, **args: Any) -> Any:
        """Waits while an engine is started in the place of one that has vanished. Raises DeckError."""
        if self._read_only and op not in READS:
            raise UsageError(f"read-only: {op} would change the deck")
        for last in (False, True):
            await self._settled.wait()
            if self._engine is None:
                break
            try:
                return await self._engine.request(op, args)
            except Gone:
                if last:
                    raise
        if self._files is None or op not in READS:
            raise EngineUnavailableError(NO_ENGINE)
        return await self._files.answer(op, args)

    def silence(self) -> str:
        """What to say while an answer does not come."""
        if self._engine is not None:
            return silent_engine(self._engine.hello.pid)
        starting = self._link.kind in ("connecting", "restarting")
        return "the next engine takes long to start" if starting else "the deck's files take long to read"

    async def news(self) -> AsyncGenerator[News, None]:
        """For one listener, without end."""
        seeing: Awaitable[Connection | None] = _result(self._opening or self.open())
        failures = 0
        while True:
            began = time.monotonic()
            try:
                if (found := await seeing) is not None:
                    async for each in self._follow(found):
                        yield each
            except DeckError as error:
                for told in (*self._ended(error), *self._lines()):
                    yield told
            failures = failures + 1 if self._vanished and time.monotonic() - began <= _STEADY_S else 0
            if self._link.kind != "restarting":
                async for each in self._from_files():
                    yield each
            again_s = _AGAIN_S[min(failures, len(_AGAIN_S)) - 1] if failures else 0.0
            await self._wait(again_s if self._vanished else LOOK_S)
            starts = not self._read_only and (self._vanished or self._again.is_set())
            self._again.clear()
            seeing = in_thread(self._start if starts else self._look)

    async def _follow(self, connection: Connection) -> AsyncGenerator[News, None]:
        """Until the engine is gone, which raises Gone."""
        self._settled.clear()
        self._again.clear()
        self._why = ""
        self._link = replace(live_link(connection.hello), read_only=self._read_only)
        yield self._link
        for each in (*connection.kept, *self._lines()):  # at once: the first picture is drawn with it
            yield each
        self._engine = await AsyncConnection.of(connection)
        self._settled.set()
        async for news in self._engine.news():
            yield replace(news, read_only=self._read_only) if isinstance(news, Link) else news

    def _ended(self, error: DeckError) -> Sequence[Link]:
        """An engine has gone, or has not been reached: how the screen stands now, unless the files tell that, too."""
        engine, self._engine = self._engine, None
        self._settled.clear()
        self._link = self._link_without(engine, error)
        if engine is not None:
            self._vanished = self._link.kind == "restarting"
        if self._files is not None:
            self._files.forget()
        self._look_at = 0.0
        return () if self._link.kind == "files" else (self._link,)

    def _link_without(self, engine: AsyncConnection | None, error: DeckError) -> Link:
        if engine is None or not isinstance(error, Gone):
            return Link("failed", str(error), 0 if engine is None else engine.hello.pid, read_only=self._read_only)
        hello = engine.hello
        if self._read_only:  # why there is none is told with what the files tell
            return Link("files", pid=hello.pid if error.goodbye else 0, read_only=True)
        return Link("over" if error.goodbye else "restarting", str(error), hello.pid, hello.version, hello.host)

    async def _from_files(self) -> AsyncGenerator[News, None]:
        """What they tell, where that is not what they told last; for so long that an engine is not found late."""
        began = time.monotonic()
        link = self._link if self._read_only or not self._why else replace(self._link, kind="failed")
        try:
            if began >= self._look_at:
                await self._look_at_files(self._why or link.text)
            self._settled.set()
            if self._files is None:
                return
            async with contextlib.aclosing(self._files.news(link)) as told:
                async for each in told:
                    yield each
                    if isinstance(each, Delta) and (self._again.is_set() or time.monotonic() - began > LOOK_S):
                        return
        except (DeckError, OSError) as error:
            if self._files is not None:
                self._files.forget()
            self._settled.set()
            yield replace(link, kind="failed", text=str(error))

    async def _look_at_files(self, why: str) -> None:
        """*why*: see `FilesPicture`. Raises DeckError or OSError where they tell nothing."""
        began = time.monotonic()
        try:
            self._files = await in_thread(lambda: self._from_disk(why))
        finally:
            now = time.monotonic()
            self._look_at = now + _SHARE * (now - began)

    def _lines(self) -> list[str]:
        """What has been said since."""
        said = self._said.copy()
        del self._said[: len(said)]
        return said

    async def _wait(self, most_s: float) -> None:
        """Until then, or until the user wants an engine now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._again.wait()

    # -- these block, each in a thread of its own ---------------------------------------------------------------------

    def _start(self) -> Connection:
        """The deck's engine, started where none runs, with its picture on the way. Raises DeckError."""
        vanished = self._vanished
        purpose: Purpose = "resume" if vanished else "look"
        takeover = self._takeover and not vanished
        connection = self._place.start(purpose, takeover=takeover, quiet=not vanished, change=not vanished)
        connection.watch()
        return connection

    def _first_look(self) -> Connection | None:
        """Raises DeckError where there is nothing to look at."""
        try:
            found = self._attached()
        except EngineUnavailableError as error:
            found, self._why = None, str(error)
        if found is None:
            self._files = self._from_disk(self._why)
        return found

    def _look(self) -> Connection | None:
        """An engine that runs."""
        self._why = ""
        try:
            return self._attached()
        except DeckError as error:
            self._why = str(error)
            return None

    def _attached(self) -> Connection | None:
        """An engine that runs; None: there is none, or it ends just now. Raises DeckError: why it cannot be asked."""
        told: list[str] = []
        connection = replace(self._place, tell=told.append).attach()
        if connection is None:
            return None
        if connection.hello.pid == self._link.pid:  # it has said goodbye, and is not gone yet
            connection.close()
            return None
        self._said += told
        connection.watch()
        return connection

    def _from_disk(self, why: str) -> FilesPicture:
        """*why*: see `FilesPicture`. Raises DeckError or OSError where the files tell nothing."""
        from .files_picture import FilesPicture  # which brings half the engine with it

        files = self._files or FilesPicture(self._place)
        files.look(why)
        return files


async def _result(future: Future[Connection | None]) -> Connection | None:
    """At once where it is there."""
    return future.result() if future.done() else await asyncio.wrap_future(future)
