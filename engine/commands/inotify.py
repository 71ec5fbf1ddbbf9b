"""Waits until something is written in folders: by the kernel's inotify, by looking where that cannot be had."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Sequence

_CLOEXEC, _NONBLOCK = 0o2000000, 0o4000
_MASK = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200
"""Modified, closed after writing, moved from and to, created, deleted."""
LOOK_S = 0.25
"""Between looks where the kernel does not tell."""


class Writes:
    """Watches folders for writes to what is in them."""

    def __init__(self) -> None:
        import ctypes  # slow to load, and a screen's first picture needs none of this

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        self._watched: set[str] = set()
        self.told = self._fd >= 0
        """The kernel tells of everything that is watched."""

    def watch(self, folder: str) -> None:
        """Once for each folder; one that does not exist yet is not watched."""
        if folder in self._watched or self._fd < 0:
            return
        if self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _MASK) >= 0:
            self._watched.add(folder)
        elif os.path.isdir(folder):
            self.told = False  # no watches are left

    def wait(self, others: Sequence[int], most_s: float | None) -> None:
        """Until something is written, one of the descriptors *others* can be read, or *most_s* are over."""
        if not self.told:
            most_s = LOOK_S if most_s is None else min(LOOK_S, most_s)
        poll = select.poll()
        for fd in (*others, *([self._fd] if self._fd >= 0 else [])):
            poll.register(fd, select.POLLIN)
        poll.poll(None if most_s is None else max(0, int(most_s * 1000)))
        with contextlib.suppress(OSError):
            while self._fd >= 0 and os.read(self._fd, 65536):
                pass

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
