"""Looks how much room the disks of a deck have, where it starts nothing below some (`disk`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from .adapters.background import Background
from .core.inputs import DevicesSampled
from .core.spec import DeckFile

PERIOD_S = 10.0
_PATIENCE_S = 5.0


class DiskWatch:
    """Of the folders' disks the one with the least room counts. The kernel tells nobody when that changes."""

    def __init__(self, file: DeckFile, post: Callable[[DevicesSampled], None], loop: asyncio.AbstractEventLoop) -> None:
        self._folders = folders_of(file)
        self._post = post
        self._loop = loop
        self._thread: Background | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Nothing starts before the first look: the deck's files have just been read from these disks."""
        if self._thread is None:
            self._thread = Background(self._loop)
            self._take(free_mib(self._folders))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.close()

    def _look(self) -> None:
        assert self._thread is not None
        self._thread.submit(lambda: free_mib(self._folders), self._take, timeout_s=_PATIENCE_S)

    def _take(self, found: int | None) -> None:
        """*found*: None from a disk that does not answer; what it told last stands."""
        if found is not None:
            self._post(DevicesSampled((), disk_free_mib=found))
        self._timer = self._loop.call_later(PERIOD_S, self._look)


def folders_of(file: DeckFile) -> tuple[str, ...]:
    """Those whose disks the tasks of a file fill."""
    return os.path.dirname(file.path), file.settings.log_dir


def free_mib(folders: Sequence[str]) -> int | None:
    """The least of what their disks have left for users; of a folder that is not there yet, its parent's. None: nobody
    can tell."""
    return min((found for folder in folders if (found := _free_mib(folder)) is not None), default=None)


def _free_mib(folder: str) -> int | None:
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize >> 20
