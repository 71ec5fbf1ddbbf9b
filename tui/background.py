"""What may hang or compute for ever is done in a daemon thread or a process: it holds up neither the loop nor the exit,
which would wait for a thread of asyncio's own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from textual.widget import Widget

Wanted = TypeVar("Wanted", bound=Hashable)
Found = TypeVar("Found")


def begun(call: Callable[[], Found]) -> Future[Found]:
    """*call*, done in a thread from now on."""
    future: Future[Found] = Future()
    future.set_running_or_notify_cancel()  # who stops waiting for it does not end it

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # whoever waits for it gets it
            future.set_exception(error)

    threading.Thread(target=run, name="gpudeck-background", daemon=True).start()
    return future


async def in_thread(call: Callable[[], Found]) -> Found:
    """What *call* returns, or raises."""
    return await asyncio.wrap_future(begun(call))


async def lines_from(module: str, order: str) -> AsyncGenerator[str, None]:
    """What a process of our own prints, line by line, until it ends or nobody listens. *module*: of this package, run
    with *order* as its only word. Raises OSError: there is no process; ChildProcessError: it has failed."""
    command = (sys.executable, "-P", "-m", f"gpudeck.tui.{module}", order)
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=null, stdout=subprocess.PIPE, stderr=null, text=True)
    assert process.stdout is not None
    try:
        while line := await in_thread(process.stdout.readline):
            yield line
        if code := await in_thread(process.wait):
            raise ChildProcessError(f"it ended with {code}")
    finally:
        begun(lambda: _end(process))


def _end(process: subprocess.Popen[str]) -> None:
    with process:
        process.kill()


class BackgroundReader(Generic[Wanted, Found]):
    """Reads what is asked for in threads, one after the other, and keeps what it has found. Ends with its widget."""

    def __init__(self, widget: Widget, read: Callable[[Wanted], Found], told: Callable[[], None], *, kept: int) -> None:
        """*read* may block; it raises nothing. *told* is called when something else has been found. *kept*: of so many
        the newest."""
        self._widget, self._read, self._told = widget, read, told
        self._kept = kept
        self._found: dict[Wanted, Found | None] = {}
        """None: it is being read."""
        self._wanted: deque[Wanted] = deque()
        self._reads = False

    def of(self, wanted: Wanted) -> Found | None:
        """None: not read yet, it will be told."""
        if wanted not in self._found:
            self._found[wanted] = None
            while len(self._found) > self._kept:
                del self._found[next(iter(self._found))]
            self.again(wanted)
        return self._found[wanted]

    def again(self, wanted: Wanted) -> None:
        """Read it once more: of an attempt that has just begun or ended not all is written yet."""
        self._wanted.append(wanted)
        if not self._reads:
            self._reads = True
            self._widget.run_worker(self._run(), group="background")

    async def _run(self) -> None:
        while self._wanted:
            wanted = self._wanted.popleft()
            found = await in_thread(lambda wanted=wanted: self._read(wanted))
            if self._found.get(wanted) != found:
                self._found[wanted] = found
                self._told()
        self._reads = False
