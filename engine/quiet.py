"""A quiet start: a command that starts an engine says what it came for before the engine starts the first task, or
instead of that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .core.deck import Deck

ALONE_S = 5.0
"""A command that does not come within this time is not waited for."""
PATIENCE_S = 60.0
"""A user who is asked whether all of this is meant may think about it so long."""
AFTER_S = 1.0
"""What a command asks for, it asks for in one go."""
_LOOKING = frozenset({"status", "options", "select", "rows", "explain", "show", "watch"})
_STARTING = frozenset({"retry", "start", "unpause"})
"""Nothing has to come before what these ask for."""


class QuietStart:
    """Of one engine; does nothing unless `begin` is called. On the loop's thread."""

    def __init__(
        self, deck: Deck, wake: Callable[[], None], leave: Callable[[str], None], *, clients: Callable[[], int]
    ) -> None:
        """*wake* makes the deck look whether it can start something; *leave* ends the engine and says why; *clients*:
        how many are attached."""
        self._deck = deck
        self._wake = wake
        self._leave = leave
        self._clients = clients
        self._notes_only = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0
        self._acted = False

    def begin(self, *, notes_only: bool) -> None:
        """Nothing starts until `end`, which comes by itself. *notes_only*: the engine ends then instead, unless
        somebody is attached who stays."""
        self._notes_only = notes_only
        self._deck.quiet = True
        self._until = self._loop.time() + PATIENCE_S
        self._end_in(ALONE_S)

    def asked(self, op: str) -> None:
        """A client's request has come."""
        if op in _STARTING and not self._notes_only:
            self.end()

    def taken(self, op: str) -> None:
        """A client's request has been answered."""
        if self._deck.quiet and op not in _LOOKING:
            self._acted = True
            self._end_in(ALONE_S if self._notes_only else AFTER_S)

    def stay(self) -> None:
        """Somebody wants the deck to run, once what others came for has been noted."""
        self._notes_only = False

    def left(self) -> None:
        """A client has gone."""
        if self._acted and not (self._notes_only and self._clients()):  # another command may have come meanwhile
            self.end()

    def end(self) -> None:
        """Tasks start, or the engine ends. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deck.quiet and self._notes_only:
            self._leave("it was started to note what was asked for")
        elif self._deck.quiet:
            self._deck.quiet = False
            self._deck.plan_due = True
            self._wake()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end_in(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(wait_s, self._consider)

    def _consider(self) -> None:
        if self._clients() and not self._acted and self._loop.time() < self._until:
            self._end_in(ALONE_S)
        else:
            self.end()
