"""An engine's socket in memory: where clients find it, and connections whose two ends are killed or dropped."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from gpudeck.engine.protocol.wire import Request, ToClient, decode, encode
from tests.inside.sim import server
from tests.sim.box import Simulated
from tests.sim.loop import SimLoop

_HIGH_WATER = 4
"""Lines that wait for a client; with more it counts as one that does not read."""


class SimLock:
    """`DeckLock` of one engine."""

    def __init__(self, pid: int) -> None:
        self.holder = SimpleNamespace(pid=pid)
        self.address = ""
        """Where the engine says that it listens."""

    def write(self, *, address: str) -> None:
        self.address = address


class SimListener:
    """`sockets.Listener`, and the server that listens on it."""

    def __init__(self, sockets: dict[str, SimListener], address: str) -> None:
        self.socket = self
        self.address = address
        self._sockets = sockets
        self._accepts: tuple[SimLoop, Callable[[], Any]] | None = None
        sockets[address] = self

    def accept(self, loop: SimLoop, factory: Callable[[], Any]) -> SimListener:
        self._accepts = (loop, factory)
        return self

    def still_there(self) -> bool:
        return self._sockets.get(self.address) is self

    def close(self) -> None:
        if self.still_there():
            del self._sockets[self.address]
        self._accepts = None

    def connect(self) -> SimConnection | None:
        """None: nobody listens."""
        if self._accepts is None or self._accepts[0].dead:
            return None
        return SimConnection(*self._accepts)


class SimConnection:
    """One connection: the engine's end is a transport of asyncio's, the client's reads messages when it likes."""

    def __init__(self, loop: SimLoop, factory: Callable[[], Any]) -> None:
        self._loop = loop
        self._engine_end: Any = factory()
        self._lines: deque[tuple[ToClient | None, object]] = deque()
        self._unread: deque[bytes] = deque()
        """Sent by a client that is not read from."""
        self._paused = self._closed = self._dropped = False
        self.told: Callable[[ToClient | None], object] = lambda _: None
        """Told of each message as the engine lets it go; what it returns is kept with it."""
        loop.call_soon(self._engine_end.connection_made, self)

    # -- the client's end

    def ask(self, request: Request, *, torn_at: int = 0) -> None:
        """*torn_at*: after so many bytes it comes in two pieces."""
        line = encode(request)
        for piece in (line[:torn_at], line[torn_at:]) if torn_at else (line,):
            self.send(piece)

    def send(self, data: bytes) -> None:
        self._unread.append(data)
        self._deliver()

    def drop(self) -> None:
        """The client is gone, whatever is on the way."""
        if not self._dropped:
            self._dropped = True
            self._lines.clear()
            if not self._closed:
                self._loop.call_soon(self._engine_end.connection_lost, None)

    def read(self) -> Iterator[tuple[ToClient | None, object]]:
        """All that has come."""
        while self._lines:
            yield self._lines.popleft()
        if self._engine_end.choked and not self._loop.dead:
            self._loop.within(self._engine_end.resume_writing)

    @property
    def idle(self) -> bool:
        """Nothing is on the way to the client."""
        return not (self._lines or self.behind)

    @property
    def behind(self) -> bool:
        """The client has not read all that it was to be told, or gets a new picture."""
        end = self._engine_end
        return bool(end.choked or end.pump or end.missed)

    @property
    def over(self) -> bool:
        """The engine has hung up, or is dead, and all that it said has been read."""
        return not self._lines and (self._closed or self._loop.dead)

    # -- the engine's end

    def get_extra_info(self, name: str) -> object:
        return name

    def set_write_buffer_limits(self, *, high: int, low: int) -> None:
        pass

    def write(self, line: bytes) -> None:
        if self._dropped or self._closed:
            return
        message = decode(line)
        self._lines.append((message, self.told(message)))
        if len(self._lines) > _HIGH_WATER and not self._engine_end.choked:
            self._engine_end.pause_writing()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._deliver()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if not self._dropped:
                self._loop.call_soon(self._engine_end.connection_lost, None)

    abort = close

    def _deliver(self) -> None:
        while self._unread and not (self._paused or self._closed or self._dropped):
            self._loop.call_soon(self._received, self._unread.popleft())

    def _received(self, data: bytes) -> None:
        if not (self._closed or self._dropped):
            self._engine_end.data_received(data)


def _own_uid(_: object) -> int:
    return os.geteuid()


@contextmanager
def listening(box: Simulated) -> Iterator[None]:
    """Engines bind their sockets in *box*."""
    with (
        mock.patch.object(server, "listen", lambda state: SimListener(box.sockets, state)),
        mock.patch.object(server, "peer_uid", _own_uid),
    ):
        yield
