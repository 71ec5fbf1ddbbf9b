"""Connections of whoever has not shown the token yet: a few, for a few seconds. So nobody can keep others out by
connections that ask nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

MOST = 64
"""Of them at once; one more takes the place of the oldest."""
PATIENCE_S = 5.0


class Door:
    """Lets connections in one by one, for *handler* to speak with."""

    def __init__(self, handler: Callable[[], asyncio.Protocol]) -> None:
        self._handler = handler
        self._waiting: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.Protocol:
        return _Entrance(self)

    def came(self, transport: asyncio.Transport) -> None:
        while len(self._waiting) >= MOST:
            self._turn_out(next(iter(self._waiting)))
        self._waiting[transport] = asyncio.get_running_loop().call_later(PATIENCE_S, self._turn_out, transport)
        handler = self._handler()
        transport.set_protocol(handler)
        handler.connection_made(transport)

    def welcome(self, transport: asyncio.BaseTransport | None) -> None:
        """This one has shown the token. Idempotent."""
        if transport is not None and (timer := self._waiting.pop(transport, None)):
            timer.cancel()

    def _turn_out(self, transport: asyncio.BaseTransport) -> None:
        self.welcome(transport)
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class _Entrance(asyncio.Protocol):
    def __init__(self, door: Door) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._door.came(transport)
