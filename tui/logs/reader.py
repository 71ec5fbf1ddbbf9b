"""A thread that reads one log for the screen: the screen posts moves and gets frames, and waits for no file system."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

from ...engine.adapters.inotify import Writes
from ...engine.adapters.state.mounts import on_network
from ...engine.logs.log_file import LogFile
from .viewport import Frame, Viewport

Move = Callable[[Viewport], object]

GROWTH_S = 0.1
"""What has grown is shown this often at most; a move is shown at once."""
LOOK_S = 2.0
"""Between looks for a folder that is not there yet."""
SERVER_LOOK_S = 1.0
"""Between looks on a file server: the kernel does not tell what another host writes, as a job of a cluster does."""


class Reader:
    """Daemon thread, so that a file server which hangs holds up no exit."""

    def __init__(self, path: str, deliver: Callable[[Frame], None], growth_s: float) -> None:
        """*deliver* is called on the thread, which `start` starts; for growth alone at most once in *growth_s*."""
        self._path = path
        self._deliver = deliver
        self._growth_s = growth_s
        self._moves: deque[Move] = deque()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._closed = False
        self._watching = True

    def start(self) -> None:
        """Moves posted before are done before the first frame is made."""
        threading.Thread(target=self._run, name="log-reader", daemon=True).start()

    def post(self, move: Move) -> None:
        """Do something to the viewport, and show it."""
        self._moves.append(move)
        self._rouse()

    def watch(self, on: bool) -> None:
        """Whether growth is worth looking at: not while nobody sees it."""
        if on != self._watching:
            self._watching = on
            self._rouse()

    def close(self) -> None:
        """Does not wait. Idempotent."""
        self._closed = True
        self._rouse()

    def _rouse(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        file = LogFile(self._path)
        try:
            self._read(file)
        except Exception as error:  # nobody sees the thread end: the view tells
            self._deliver(Frame(problem=f"reading it failed: {error!r}"))
        finally:
            file.close()
            with self._lock:
                os.close(self._wake)
                self._wake = -1

    def _read(self, file: LogFile) -> None:
        view = Viewport(file)
        folder = os.path.dirname(os.path.realpath(self._path))
        slow = on_network(folder)
        first = True
        with contextlib.closing(_Growth(folder)) as growth:
            while not self._closed:
                looked_at = time.monotonic()
                changed = (self._watching or first) and growth.look(file, afresh=slow)
                asked = self._move(view) or first
                if (changed or asked) and not self._closed:
                    self._deliver(view.frame(asked=asked))
                first = False
                if self._watching:
                    growth.wait(self._wake, SERVER_LOOK_S if slow else LOOK_S if file.missing or file.problem else None)
                    self._rest(looked_at + self._growth_s)
                else:
                    _wait_for(self._wake, None)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)

    def _rest(self, until: float) -> None:
        """Up to then only a move is worth waking for."""
        rest_s = until - time.monotonic()
        if rest_s > 0 and not self._moves and not self._closed:
            _wait_for(self._wake, rest_s)

    def _move(self, view: Viewport) -> bool:
        moved = False
        while self._moves:
            self._moves.popleft()(view)
            moved = True
        return moved


class _Growth:
    """What the kernel tells of a folder, also of one that comes, or goes and comes again."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writes = Writes()

    def look(self, file: LogFile, *, afresh: bool) -> bool:
        """Look at the file; returns whether anything about it has changed. *afresh*: as `LogFile.look` does."""
        self._writes.watch(self._folder)
        before = file.generation
        changed = file.look(afresh=afresh)
        if file.missing or file.generation != before:  # it may have gone with its folder, and the watch with it
            self._writes.close()
            self._writes = Writes()
            self._writes.watch(self._folder)
            changed |= file.look()
        return changed

    def wait(self, wake: int, most_s: float | None) -> None:
        self._writes.wait((wake,), most_s)

    def close(self) -> None:
        self._writes.close()


def _wait_for(fd: int, most_s: float | None) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(None if most_s is None else int(most_s * 1000) + 1)
