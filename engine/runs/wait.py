"""What a run waits for, told once it has waited for a while."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..client.connection import Connection
from ..protocol.wire import TaskRow
from ..text import ranges

TELL_S = 1.0
"""A run that waits for longer says why, and looks as often whether the reason is another."""
WAITS = ("waiting", "queued")
_SHOWN = 3


class Wait:
    """Of one run."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._look_at = time.monotonic() + TELL_S
        self._told = ""

    def tell(self, connection: Connection) -> Collection[str]:
        """Say why, where that is new. Returns the kinds of obstacles; () where it was not looked."""
        if time.monotonic() < self._look_at:
            return ()
        self._look_at = time.monotonic() + TELL_S
        obstacles: Sequence[dict[str, Any]] = connection.request("explain", tasks=[self._name])[self._name]
        why = "; ".join(obstacle["text"] for obstacle in obstacles[:_SHOWN])
        gist = re.sub(r"\d+", "", why)
        if why and gist != self._told:
            self._told = gist
            self._say(f"{self._name} waits: {why}")
        return {obstacle["kind"] for obstacle in obstacles}

    def over(self, row: TaskRow) -> None:
        """It has started: say so where it was said to wait."""
        if self._told:
            self._say(f"{self._name} runs" + (f" on GPU {ranges(row.gpus)}" if row.gpus else ""))
            self._told = ""
