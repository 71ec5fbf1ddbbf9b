"""Tells when a task file may have been written: through the kernel, and by looking where the kernel cannot tell."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..adapters.state.mounts import NETWORK_FILE_SYSTEMS, file_system

POLL_S = 2.0
_STEP_MS = 250
"""How often the library's native thread asks whether there is news, and whether it is to end."""
_GROUP_MS = 500
"""Writes that follow each other are one change."""
_JOIN_S = 2.0


class FileWatch:
    """Watches the folder of a file: editors write a new file and rename it over the old one."""

    def __init__(self, path: str, touched: Callable[[], None], *, polling: bool | None = None) -> None:
        """*touched* is called in the watch's thread, also for changes that are none. *polling*: look at the file every
        other second; None: where it lies on a network file system."""
        self._path = path
        self._touched = touched
        self._stop = threading.Event()
        self.network = any(file_system(one) in NETWORK_FILE_SYSTEMS for one in self._names())
        """It lies on a network file system."""
        self.polling = self.network if polling is None else polling
        self._watch = None if self.polling else _library()
        self._thread = threading.Thread(target=self._run, name="taskfile", daemon=True)

    def start(self) -> None:
        self._thread.start()
        atexit.register(self._join)

    def close(self) -> None:
        """Its thread ends by itself, within a quarter of a second."""
        self._stop.set()

    def _join(self) -> None:
        """The interpreter must not end while the thread is in native code: coming back from there would abort it. Nor
        does one more Ctrl-C end it sooner."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._stop.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        if not self.polling:
            # No inotify watches left, or the folder is gone: looking always works.
            with contextlib.suppress(OSError, RuntimeError):
                self._listen()
        if not self._stop.is_set():
            self.polling = True
            self._poll()

    def _names(self) -> set[str]:
        """A link may come to mean another file."""
        return {self._path, os.path.realpath(self._path)}

    def _listen(self) -> None:
        """Until it is closed, or the folder cannot be watched any more."""
        names = self._names()
        while not self._stop.is_set():
            folders = {os.path.dirname(name) for name in names}
            for changes in self._changes(folders):
                before, names = names, self._names()
                if {path for _, path in changes} & (before | names):
                    self._touched()
                if names != before:
                    break

    def _changes(self, folders: set[str]) -> Iterator[set[tuple[object, str]]]:
        assert self._watch is not None
        return self._watch(
            *folders,
            watch_filter=None,
            debounce=_GROUP_MS,
            step=_STEP_MS,
            stop_event=self._stop,
            recursive=False,
            raise_interrupt=False,
            force_polling=False,
        )

    def _poll(self) -> None:
        before = self._look()
        while not self._stop.wait(POLL_S):
            if (now := self._look()) != before:
                before = now
                self._touched()

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns


def _library() -> Any:
    """Loaded before the first start, and only by who listens: it takes 30 ms."""
    from watchfiles import watch

    return watch
