"""A connection to an engine on the app's own loop: what comes is heard, requests are answered meanwhile, and silence is
noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from ..engine.client.connection import Connection, Gone, SaidGoodbye, result_of, silent_engine
from ..engine.errors import DeckError
from ..engine.protocol.wire import Bye, Hello, Reply, Request, ToClient, encode
from .model import Link

QUIET_S = 5.0
"""An engine that has said nothing for so long is asked for a sign of life."""
PATIENCE_S = 5.0
"""One that has not answered by then is said to be silent."""
TICK_S = 1.0
"""How often it is said for how long, then."""
_READ_BYTES = 1 << 18


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
        live, pulse = live_link(self.hello), Pulse()
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


def live_link(hello: Hello) -> Link:
    return Link("live", pid=hello.pid, version=hello.version, host=hello.host)
