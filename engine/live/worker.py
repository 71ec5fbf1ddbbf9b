"""A thread that works on the user's files; what it does can be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ..adapters.background import Background
from ..errors import EngineUnavailableError

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

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """Run *work*; what it raises is raised here. EngineUnavailableError where it hangs."""
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
        return await future

    def close(self) -> None:
        self._background.close()
