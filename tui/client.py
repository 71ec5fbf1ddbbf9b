"""The screen's line to a deck's engine, on the app's own loop: it is followed, asked, and brought back when it
vanishes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from ..engine.client.connection import Connection, Gone, SaidGoodbye, result_of, silent_engine
from ..engine.client.place import Place
from ..engine.errors import DeckError, EngineUnavailableError
from ..engine.protocol.wire import Bye, Hello, Reply, Request, ToClient, encode
from .background import begun, in_thread
from .model import Link, News

LOOK_S = 1.0
"""Between looks for an engine that somebody else starts."""
QUIET_S = 5.0
"""An engine that has said nothing for so long is asked for a sign of life."""
PATIENCE_S = 5.0
"""One that has not answered by then is said to be silent."""
TICK_S = 1.0
"""How often it is said for how long, then."""
_READ_BYTES = 1 << 18
_AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait before an engine that cannot be reached, or that did not last, is tried again."""
_STEADY_S = 10.0
"""An engine that lived this long is not one that dies of its start."""


class Pulse:
    """Counts the seconds that were waited for in vain, not those of a clock: a screen that was stopped for an hour
    itself has not waited."""

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._asked_after_s: float | None = None

    @property
    def wait_s(self) -> float:
        """How long to wait for the next word."""
        if self._asked_after_s is None:
            return QUIET_S
        return TICK_S if self.silent_s else PATIENCE_S

    @property
    def silent_s(self) -> float:
        """For how long a question has not been answered; 0: there is nothing to worry about."""
        unanswered_s = 0.0 if self._asked_after_s is None else self._waited_s - self._asked_after_s
        return unanswered_s if unanswered_s >= PATIENCE_S else 0.0

    def waited(self, wait_s: float) -> bool:
        """Nothing has come for *wait_s*. True: it is to be asked now."""
        self._waited_s += wait_s
        if self._asked_after_s is None and self._waited_s >= QUIET_S:
            self._asked_after_s = self._waited_s
            return True
        return False

    def heard(self) -> bool:
        """Anything has come. True: it had been silent."""
        was_silent = bool(self.silent_s)
        self._waited_s, self._asked_after_s = 0.0, None
        return was_silent


class AsyncConnection:
    """A connection that the loop has taken over. It answers while `news` is listened to."""

    def __init__(self, taken: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hello, self._inbox = taken.hello, taken.inbox
        self._reader, self._writer = reader, writer
        self._answers: dict[int, asyncio.Future[Any]] = {}
        """By id, of the requests that are waited for."""
        self._last_id = 0

    @classmethod
    async def of(cls, connection: Connection) -> AsyncConnection:
        """Of *connection* all that has come until now has been taken."""
        return cls(connection, *await asyncio.open_unix_connection(sock=connection.socket, limit=_READ_BYTES))

    async def request(self, op: str, args: dict[str, Any]) -> Any:
        """Raises DeckError; Gone: the engine has ended."""
        number = self._send(op, args)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            return await answer
        finally:
            del self._answers[number]

    def _send(self, op: str, args: dict[str, Any]) -> int:
        self._last_id += 1
        self._writer.write(encode(Request(id=self._last_id, op=op, args=args)))
        return self._last_id

    async def news(self) -> AsyncGenerator[Link | ToClient, None]:
        """Until the engine is gone, which raises Gone. One that does not answer may come back, so it is waited for."""
        live, pulse = _live(self.hello), Pulse()
        try:
            while True:
                wait_s = pulse.wait_s
                try:
                    async with asyncio.timeout(wait_s):
                        data = await self._reader.read(_READ_BYTES)
                except TimeoutError:
                    if pulse.waited(wait_s):
                        self._send("options", {})
                    if pulse.silent_s:
                        yield replace(live, kind="silent", text=silent_engine(live.pid), silent_s=pulse.silent_s)
                    continue
                if pulse.heard():
                    yield live
                self._inbox.take(data)
                while (message := self._inbox.next()) is not None:
                    self._answer(message)
                    yield message
        except OSError as error:
            raise Gone("the connection to the engine broke") from error
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(Gone("the engine has ended"))
            self._writer.close()

    def _answer(self, message: ToClient) -> None:
        """Hand an answer to who waits for it. Raises SaidGoodbye."""
        match message:
            case Reply():
                waiting = self._answers.get(message.id)
                if waiting is None or waiting.done():
                    return
                try:
                    waiting.set_result(result_of(message))
                except DeckError as error:
                    waiting.set_exception(error)
            case Bye():
                raise SaidGoodbye(f"the engine has ended: {message.why}")
            case _:
                pass


class DeckClient:
    """Follows a deck's engine with `news`, and asks it meanwhile. One that has vanished is replaced; after a goodbye
    none is started unasked, but one that another shell starts is followed."""

    def __init__(self, place: Place, *, takeover: bool = False, said: Sequence[str] = ()) -> None:
        """*said*: lines that were told before there was a screen, for its users, too."""
        self._said = list(said)
        """Lines that a command would have printed beside its output."""
        self._place = replace(place, tell=self._said.append)
        self._takeover = takeover
        self._opening: Future[Any] | None = None
        self._again = asyncio.Event()
        self._engine: AsyncConnection | None = None
        self._settled = asyncio.Event()
        """An engine can be asked, or there is none and none is being started."""
        self._pid = 0
        """Of the engine that is or was followed last."""

    def open(self) -> Future[Any]:
        """Reach the engine at once, before there is a loop. The result raises DeckError: why it cannot be."""
        self._opening = begun(lambda: self._reach(vanished=False))
        return self._opening

    def reconnect(self) -> None:
        """Try again now, after a goodbye or a failure."""
        self._again.set()

    async def request(self, op: str, /, **args: Any) -> Any:
        """Waits while an engine is started in the place of one that has vanished. Raises DeckError."""
        for last in (False, True):
            await self._settled.wait()
            if self._engine is None:
                raise EngineUnavailableError("no engine runs: ctrl+r starts one")
            try:
                return await self._engine.request(op, args)
            except Gone:
                if last:
                    raise
        raise AssertionError("the second attempt returns")

    def silence(self) -> str:
        """What to say while an answer does not come."""
        engine = self._engine
        return "the next engine takes long to start" if engine is None else silent_engine(engine.hello.pid)

    async def news(self) -> AsyncGenerator[News, None]:
        """For one listener, without end."""
        opening: Awaitable[Connection] = _result(self._opening or self.open())
        vanished, failures = False, 0
        while True:
            began = time.monotonic()
            try:
                async for each in self._follow(await opening):
                    yield each
            except DeckError as error:
                link = self._ended(error)
                if self._engine is not None:
                    vanished = link.kind == "restarting"
                self._ask(None, comes=link.kind == "restarting")
                yield link
                for line in self._lines():
                    yield line
            failures = 0 if time.monotonic() - began > _STEADY_S else failures + 1
            after_s = _AGAIN_S[min(failures, len(_AGAIN_S)) - 1] if failures else 0.0
            opening = self._next(vanished=vanished, after_s=after_s)

    async def _follow(self, connection: Connection) -> AsyncGenerator[News, None]:
        """Until the engine is gone, which raises Gone."""
        self._pid = connection.hello.pid
        yield _live(connection.hello)
        for each in (*connection.kept, *self._lines()):  # at once: the first picture is drawn with it
            yield each
        engine = await AsyncConnection.of(connection)
        self._ask(engine)
        async for each in engine.news():
            yield each

    def _ended(self, error: DeckError) -> Link:
        """How the screen stands with an engine that has gone, or that has not been reached."""
        if self._engine is None or not isinstance(error, Gone):
            return Link("failed", str(error))
        hello = self._engine.hello
        return Link("over" if error.goodbye else "restarting", str(error), hello.pid, hello.version, hello.host)

    def _ask(self, engine: AsyncConnection | None, *, comes: bool = False) -> None:
        """From now on this one, or nobody; *comes*: until another one is there, for which requests wait."""
        self._engine = engine
        if comes:
            self._settled.clear()
        else:
            self._settled.set()

    def _lines(self) -> list[str]:
        """What has been said since."""
        said = self._said.copy()
        del self._said[: len(said)]
        return said

    async def _next(self, *, vanished: bool, after_s: float) -> Connection:
        """Another engine: for one that has vanished it is started *after_s*; else it is the user who wants one, or
        somebody has started it elsewhere. Raises DeckError."""
        if vanished:
            await self._wait(after_s)
        while not vanished and not self._again.is_set():
            if (found := await in_thread(self._other)) is not None:
                return found
            await self._wait(LOOK_S)
        self._again.clear()
        return await in_thread(lambda: self._reach(vanished=vanished))

    async def _wait(self, most_s: float) -> None:
        """Until then, or until the user wants an engine now."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._again.wait()

    def _reach(self, *, vanished: bool) -> Connection:
        """Blocks. The deck's engine, started where none runs, with its picture on the way. Raises DeckError."""
        takeover = self._takeover and not vanished
        purpose = "resume" if vanished else "look"
        connection = self._place.start(purpose, takeover=takeover, quiet=not vanished, change=not vanished)
        connection.watch()
        return connection

    def _other(self) -> Connection | None:
        """Blocks. An engine that runs; None: there is none, it ends just now, is frozen, or runs with other options."""
        with contextlib.suppress(DeckError):
            connection = replace(self._place, tell=_nothing).attach()
            if connection is not None and connection.hello.pid != self._pid:
                connection.watch()
                return connection
            if connection is not None:  # it has said goodbye, and is not gone yet
                connection.close()
        return None


async def _result(future: Future[Connection]) -> Connection:
    """At once where it is there."""
    return future.result() if future.done() else await asyncio.wrap_future(future)


def _live(hello: Hello) -> Link:
    return Link("live", pid=hello.pid, version=hello.version, host=hello.host)


def _nothing(_: str) -> None:
    """Who looks every second says nothing beside."""
