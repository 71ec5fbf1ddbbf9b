"""A client that is attached to an engine: its lines come in, what it is told goes out as fast as it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Protocol, cast

from ..protocol.wire import REQUEST_LIMIT, Hello, Reply, encode

_HIGH_WATER = 1 << 20
"""Bytes that wait for one client; with more it gets nothing but a new picture once it has read them."""


class Host(Protocol):
    """Whom clients are attached to: see `server.Server`."""

    hello: Hello

    def admit(self, client: Client, transport: asyncio.Transport) -> bool: ...
    def take(self, client: Client, line: bytes) -> None: ...
    def gone(self, client: Client) -> None: ...


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, host: Host, drained: Callable[[Client], None]) -> None:
        """*drained* is told when it has read what it was sent after it had not for a while."""
        self._host = host
        self._drained = drained
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self.choked = False
        """It has not read what it was sent."""
        self.watching = False
        self.events = False
        self.left = False
        """It is told nothing more, and nothing more is taken from it."""
        self.missed = False
        """Something was not sent because it was choked."""
        self.pump: Iterator[bytes] | None = None
        """A picture that is being sent."""
        self.since: set[int] = set()
        """Rows that changed while the picture was being sent."""

    # -- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not self._host.admit(self, self._transport):
            if not self.left:
                self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=_HIGH_WATER, low=_HIGH_WATER // 4)
        self.send(encode(self._host.hello))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while not self.left and (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            if line.strip():
                self._host.take(self, line)
        if len(self._buffer) > REQUEST_LIMIT:
            self._buffer.clear()
            self.refuse(f"a request has at most {REQUEST_LIMIT} bytes")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._host.gone(self)

    def pause_writing(self) -> None:
        self.choked = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.choked = False
        if self._transport is not None:
            self._transport.resume_reading()
        self._drained(self)

    # -- the host's ---------------------------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Send a line to a client that is still there."""
        if self._transport is not None:
            self._transport.write(line)

    def refuse(self, why: str, code: int = 2) -> None:
        """End the connection, saying why."""
        self.send(encode(Reply(id=0, ok=False, error=why, code=code)))
        self.leave()

    def leave(self) -> None:
        """Close the connection once it has taken what was sent. Whether it ever does is of no interest to anybody."""
        self.left, self.watching, self.events, self.pump = True, False, False, None
        if self._transport is not None:
            self._transport.close()
        self._host.gone(self)
