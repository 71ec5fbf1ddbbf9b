"""An event loop on simulated time: it runs one piece between two awaits when told to, and can be dropped at any."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


class SimLoop(asyncio.AbstractEventLoop):
    """What an engine asks of asyncio. *now* tells seconds; *failed* is told of exceptions that nobody caught."""

    def __init__(self, now: Callable[[], float], failed: Callable[[BaseException], None]) -> None:
        self._now = now
        self._failed = failed
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = itertools.count()
        self._tasks: list[asyncio.Task[Any]] = []
        self.dead = False

    # -- what the world does with it

    @property
    def ready(self) -> bool:
        return not self.dead and bool(self._ready)

    @property
    def next_timer(self) -> float | None:
        while self._timers and (self.dead or self._timers[0][2].cancelled()):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def ripen(self) -> None:
        """Timers that are due become ready."""
        while (at := self.next_timer) is not None and at <= self._now():
            self._ready.append(heapq.heappop(self._timers)[2])

    def run_one(self) -> None:
        """The oldest piece that is ready."""
        handle = self._ready.popleft()
        if handle.cancelled():
            return
        asyncio._set_running_loop(self)
        try:
            handle._run()
        finally:
            asyncio._set_running_loop(None)

    def within(self, call: Callable[[], Any]) -> Any:
        """Call as if from a piece of this loop."""
        asyncio._set_running_loop(self)
        try:
            return call()
        finally:
            asyncio._set_running_loop(None)

    def drop(self) -> None:
        """kill -9: nothing of it runs any more."""
        self.dead = True
        for task in self._tasks:
            task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
            task.get_coro().close()
        self._ready.clear()
        self._timers.clear()

    # -- what the engine asks of it

    def time(self) -> float:
        return self._now()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.dead:
            heapq.heappush(self._timers, (when, next(self._count), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **_: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self)
        self._tasks.append(task)
        return task

    async def create_unix_server(self, factory: Callable[[], Any], *, sock: Any) -> Any:
        return sock.accept(self, factory)

    def remove_reader(self, sock: Any) -> None:
        """Nobody is between the kernel and the engine here."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return self.dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            self._failed(context.get("exception") or RuntimeError(context["message"]))
