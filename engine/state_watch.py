"""The state of a deck under a running engine: a folder that goes or moves, a full disk, a broken journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from .attempts.end import Ends
from .core.inputs import JournalState
from .decks.opening import OpenDeck
from .loop import Loop

_LOOK_EVERY_S = 5.0


class Say(Protocol):
    def __call__(self, text: str, level: str = ...) -> None: ...


class StateWatch:
    """Of one engine. On the loop's thread, but for `on_disk`."""

    def __init__(
        self,
        opened: OpenDeck,
        loop: Loop,
        ends: Ends,
        say: Say,
        in_loop: Callable[[Callable[[], None]], None],
        leave: Callable[[], None],
    ) -> None:
        """*in_loop* makes a call on the loop's thread, from any other. *leave* ends the engine and no task."""
        self._state = opened.state
        self._lock = opened.lock
        self._loop = loop
        self._ends = ends
        self._say = say
        self._in_loop = in_loop
        self._leave = leave
        self._timer: asyncio.TimerHandle | None = None
        self.moved = False
        """The deck has another place, where the next engine judges what ends from now on."""
        self._gone = ""
        """What became of the state folder; "" while it is there."""

    def lost(self) -> str:
        """Why nothing can be started any more by this engine, as far as is known; "" while it can."""
        return self._gone or self._loop.broken

    def bar(self) -> str:
        """Look whether the lock is still ours: why no process may be started; "" while one may."""
        if not self._gone and not self._lock.still_ours():
            there = self._lock.moved_to()
            if there:
                self._gone = f"{self._state.path} was moved to {there}: the next engine there takes its tasks over"
                self.moved = True
                self._leave()
            else:
                self._gone = f"{self._state.path} was removed or replaced under this engine"
        return self._gone

    def begin(self) -> None:
        """Look now and then, until `close`."""
        self.bar()
        self._timer = asyncio.get_running_loop().call_later(_LOOK_EVERY_S, self.begin)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def on_disk(self, full: bool, why: str) -> None:
        """The disk is full, or no longer. Called in the journal's thread."""

        def tell() -> None:
            self._loop.post(JournalState(not full, why))
            if full:
                self._say(f"the journal cannot be written ({why}): running tasks go on, nothing new starts", "error")
            else:
                self._loop.behind = False
                self._ends.caught_up()
                self._say("the journal can be written again", "info")

        self._in_loop(tell)
