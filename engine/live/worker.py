"""A thread that works on the user's files; what it does can be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ..adapters.background import Background
from ..errors import EngineEndingError, EngineUnavailableError

_T = TypeVar("_T")

PATIENCE_S = 300.0
"""How long a file server may take to answer."""


class Worker:
    """One piece of work after the other. Called on the loop's thread."""

    def __init__(self, what: str) -> None:
        """*what* is named where its file system does not answer."""
        self._what = what
        self._loop = asyncio.get_running_loop()
        self._background = Background(self._loop)
        self._awaited: set[asyncio.Future[Any]] = set()
        self._closed = False

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """Run *work*; what it raises is raised here. EngineUnavailableError where it hangs, EngineEndingError once it
        is closed."""
        if self._closed:
            raise _ending()
        future: asyncio.Future[_T] = self._loop.create_future()

        def guarded() -> Callable[[], None]:
            try:
                result = work()
            except Exception as error:  # The thread goes on; whoever asked for the work gets what it raised.
                return lambda error=error: future.set_exception(error)
            return lambda: future.set_result(result)

        def done(answer: Callable[[], None] | None) -> None:
            if future.done():
                return
            if answer is None:
                why = f"{self._what} cannot be read: its file system does not answer"
                future.set_exception(EngineUnavailableError(why))
            else:
                answer()

        self._background.submit(guarded, done, timeout_s=PATIENCE_S)
        self._awaited.add(future)
        try:
            return await future
        finally:
            self._awaited.discard(future)

    def close(self) -> None:
        """Who waits for work is told, and does not wait for ever."""
        self._closed = True
        self._background.close()
        for future in self._awaited:
            if not future.done():
                future.set_exception(_ending())


def _ending() -> EngineEndingError:
    return EngineEndingError("the engine was just ending: ask again")
