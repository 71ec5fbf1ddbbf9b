"""Writing to where others read: standard output that may be gone or stuck, and a log on a disk that may be full."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TextIO

MAX_PENDING_CHARS = 64 * 2**20
BEHIND_CHARS = 16 * 2**10
MAX_PENDING_TEXTS = 10_000
_WAITS = "gpudeck: all is done; the rest of the output waits for who reads it (Ctrl-C leaves it unread)"


class StreamWriter:
    """Writes text to *stream* in a thread of its own: a reader that stalls (a paused pager, a dead SSH line) holds up
    nobody. A reader that is gone (EPIPE, EIO) ends the writing silently.

    Beyond 64 Mi characters that nobody takes, text is dropped; *gap* says so once there is room again.
    """

    def __init__(self, stream: TextIO, gap: Callable[[int], str]) -> None:
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self._stream = stream
        self.fd = _descriptor(stream)
        """None: it has none."""
        self._gap = gap
        self._queue: deque[str] = deque()
        self._pending = 0
        self._dropped = 0
        self._written = 0
        self._closing = False
        self._wake = threading.Condition()
        self.gone = False
        """Nobody reads any more."""
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
        self._thread = threading.Thread(target=self._run, name="gpudeck-output", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """All that was written is taken."""
        return self._pending == 0

    @property
    def behind(self) -> bool:
        """So much waits that what can be left out should be."""
        return self._pending > BEHIND_CHARS

    def write(self, text: str) -> None:
        if self.gone or not text:
            return
        with self._wake:
            if self._pending > MAX_PENDING_CHARS:
                self._dropped += 1
                return
            if self._dropped:
                text, self._dropped = self._gap(self._dropped) + text, 0
            self._queue.append(text)
            self._pending += len(text)
            self._wake.notify_all()

    def close(self, patience_s: float = 10.0) -> None:
        """Write what is pending, however long a reader pauses; once nothing of it was taken for *patience_s*, a line on
        stderr tells what is waited for. Idempotent."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        seen = -1
        while self._thread.is_alive() and seen != self._written:
            seen = self._written
            self._thread.join(patience_s)
        if self._thread.is_alive():
            with contextlib.suppress(OSError, ValueError):
                print(_WAITS, file=sys.stderr, flush=True)
            self._thread.join()

    def _run(self) -> None:
        while text := self._take():
            try:
                self._put(text)
            except (OSError, ValueError) as error:
                self.gone = not (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT))
            with self._wake:
                self._pending = 0 if self.gone else self._pending - len(text)
                if self.gone:
                    self._queue.clear()

    def _take(self) -> str:
        with self._wake:
            self._wake.wait_for(lambda: self._queue or self._closing or self.gone)
            return self._queue.popleft() if self._queue else ""

    def _put(self, text: str) -> None:
        if self.fd is None:
            self._stream.write(text.encode(self.encoding, "replace").decode(self.encoding))
            self._stream.flush()
            self._written += len(text)
            return
        data = memoryview(text.encode(self.encoding, "replace"))
        while data:
            try:
                count = os.write(self.fd, data[:65536])
            except BlockingIOError:
                select.select((), (self.fd,), ())
                continue
            self._written += count
            data = data[count:]


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
        return None


class AppendLog:
    """Appends text to *path*. Whatever the disk does, nothing is raised: what could not be written is counted, and
    said once the disk takes it."""

    def __init__(self, path: str, gap: Callable[[int], str]) -> None:
        self._path = path
        self._gap = gap
        self._fd: int | None = None
        self._torn = False
        self._lost = 0
        self.error = ""
        """Why the last write failed; empty: it did not."""

    def write(self, text: str) -> None:
        """Append whole lines."""
        data = (self._gap(self._lost) if self._lost else "") + text
        try:
            self._append(data.encode("utf-8", "backslashreplace"))
        except OSError as error:
            self.error = f"cannot write {self._path}: {error.strerror or error}"
            self._lost += text.count("\n")
        else:
            self.error, self._lost = "", 0

    def _append(self, data: bytes) -> None:
        if self._fd is None:
            os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if self._torn:
            os.write(self._fd, b"\n")
            self._torn = False
        view = memoryview(data)
        while view:
            count = os.write(self._fd, view)
            view = view[count:]
            self._torn = bool(view)

    def close(self) -> None:
        """Idempotent."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class AsideLog(AppendLog):
    """The same in a thread of its own, for a file server: it may answer nothing for minutes, and that holds up nobody.
    Beyond 10,000 texts that it does not take, more are counted as lost."""

    def __init__(self, path: str, gap: Callable[[int], str]) -> None:
        super().__init__(path, gap)
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="gpudeck-log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        if self._queue.qsize() < MAX_PENDING_TEXTS:
            self._queue.put(text)
        else:
            self._lost += text.count("\n")

    def close(self, patience_s: float = 10.0) -> None:
        """Write what is pending; give up after *patience_s*. Idempotent."""
        self._queue.put(None)
        self._thread.join(patience_s)

    def _run(self) -> None:
        while (text := self._queue.get()) is not None:
            super().write(text)
        super().close()
