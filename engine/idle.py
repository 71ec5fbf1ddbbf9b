"""A deck that has tasks and runs none says why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

IDLE_S = 5.0
"""How long nothing has to run before it is said."""


class IdleNote:
    """Says it once for each answer, whatever its numbers."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        idle: Callable[[], bool],
        why: Callable[[], str],
        say: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._idle = idle
        self._why = why
        self._say = say
        self._timer: asyncio.TimerHandle | None = None
        self._said = ""

    def watch(self) -> None:
        """Look again in a while."""
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if not self._idle():
            return
        why = self._why()
        gist = re.sub(r"\d+", "", why)
        if why and gist != self._said:
            self._said = gist
            self._say(f"nothing runs: {why}")
        self.watch()
