"""Says that the engine keeps somebody waiting, as soon as that is felt: a key must not seem to be broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .ask import Answer, Then

SOON_S = 0.5


class Unanswered:
    """Of one app, on its loop."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        """By topic."""

    def told(self, what: str, then: Then, *, topic: str = "", silent: bool = False) -> Then:
        """*then*, with a word about *what* was asked for, should its answer not come at once. *topic*: as for
        `Asker.ask`. *silent*: the engine is known not to answer."""

        def say() -> None:
            self._say(f"{what}: the engine has not answered yet")

        if topic in self._waiting:  # that question will have no answer
            self._waiting[topic].cancel()
        waiting = asyncio.get_running_loop().call_later(0 if silent else SOON_S, say)
        if topic:
            self._waiting[topic] = waiting

        def answered(answer: Answer) -> None:
            waiting.cancel()
            then(answer)

        return answered
