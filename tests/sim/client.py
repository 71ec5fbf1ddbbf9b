"""A client that watches an engine: it reads now and then, and what it has read is the deck."""

from __future__ import annotations

from collections import deque
from typing import Any

from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.phases import NAMES
from gpudeck.engine.protocol.wire import decode
from tests.inside.sim import Client, Picture, Pictures, folded
from tests.sim.promises import Broken

_HIGH_WATER = 4
"""Lines that wait for it; with more it counts as one that does not read."""


class SimClient:
    """Its engine's end is a real one, over a transport of lines."""

    def __init__(self, host: Any, pictures: Pictures) -> None:
        """*host*: see `server_client.Host`."""
        self.end = Client(host, pictures.drained)
        self._lines: deque[bytes] = deque()
        self._picture: Picture | None = None
        self.end._transport = self  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]

    def write(self, line: bytes) -> None:
        self._lines.append(line)
        if len(self._lines) > _HIGH_WATER and not self.end.choked:
            self.end.pause_writing()

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def read(self) -> None:
        """All that has come."""
        while self._lines:
            self._picture = folded(self._picture, decode(self._lines.popleft()))  # pyright: ignore[reportArgumentType]
        if self.end.choked:
            self.end.resume_writing()

    def check(self, deck: Deck) -> None:
        """Where it has read all, it sees the deck as it stands."""
        picture = self._picture
        if picture is None or not picture.whole or self._lines or self.end.choked or self.end.pump or self.end.missed:
            return
        seen = {row.name: (row.state, row.held) for row in picture.rows.values()}
        there = {task.name: (NAMES[type(task.phase)], task.held) for task in deck.tasks}
        if seen != there:
            differ = [(name, seen.get(name), there.get(name)) for name in there if seen.get(name) != there[name]]
            raise Broken(f"a client sees another deck than its engine has: {differ or sorted(seen)}")
