"""A container that may have outlived its client, removed by name before its attempt is over.

Its processes are found by their token. This is for those that nobody could read (another user's), and for a container
that its daemon was still about to start when the client was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from ..background import Background
from ..programs import Answer, run_program
from .members import Attempt

_TIMEOUT_S = 20.0
_AT_ONCE = 4


class Removals:
    """Of the attempts of one launcher."""

    def __init__(self, loop: asyncio.AbstractEventLoop, environment: Mapping[str, str]) -> None:
        """*environment*: what the programs are called in."""
        self._background = Background(loop, threads=_AT_ONCE)
        self._environment = environment
        self._settled: set[str] = set()
        self._asked: set[str] = set()

    def not_needed(self, token: str) -> None:
        """The attempt's container is gone."""
        self._settled.add(token)

    def remove(self, attempt: Attempt, then: Callable[[bool], None]) -> None:
        """Call *then* with whether the attempt's container is gone, from within or later; not while an earlier call
        is on its way. A program that is not there, or whose daemon is not, has no containers."""
        token = attempt.token
        if token in self._settled:
            then(True)
            return
        if token in self._asked:
            return
        self._asked.add(token)
        at_once = ("--time", "0") if attempt.container == "podman" else ()
        words = (attempt.container, "rm", "--force", *at_once, f"gpudeck-{token}")

        def answered(answer: Answer | None) -> None:
            self._asked.discard(token)
            then(answer is not None and answer.code is not None)

        work = lambda: run_program(words, self._environment, timeout_s=_TIMEOUT_S)  # noqa: E731
        self._background.submit(work, answered, timeout_s=2 * _TIMEOUT_S)

    def forget(self, token: str) -> None:
        """The attempt is over."""
        self._settled.discard(token)

    def close(self) -> None:
        """Nobody is told any more."""
        self._background.close()
