"""What the kernel tells of folders (inotify). It tells nothing of what other machines do there."""

from __future__ import annotations

import contextlib
import os
import select
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_CLOEXEC, _NONBLOCK = 0o2000000, 0o4000
_MODIFIED, _CLOSED, _MOVED_FROM, _MOVED_TO, _CREATED, _DELETED = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")
LOOK_S = 0.25
"""Between looks where the kernel does not tell."""


class _Inotify:
    """A descriptor that tells of folders; -1 where the kernel gives none, and then nothing is ever told."""

    def __init__(self) -> None:
        import ctypes  # slow to load, and a screen's first picture needs none of this

        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.inotify_init1(_CLOEXEC | _NONBLOCK)

    def watch(self, folder: str, events: int) -> bool:
        """False: it is not there, or no watches are left."""
        return self.fd >= 0 and self._libc.inotify_add_watch(self.fd, os.fsencode(folder), events) >= 0

    def read(self) -> bytes:
        """Some of what has happened, b"" where nothing has."""
        with contextlib.suppress(OSError):
            return os.read(self.fd, 65536)
        return b""

    def close(self) -> None:
        """Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Arrivals:
    """Calls *arrived* on the loop's thread with names of files that were written in a folder, or moved there; with None
    where some were missed."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, folder: str, arrived: Callable[[set[str] | None], None]
    ) -> None:
        """Where the kernel has no watches left, or the folder is not there, nothing is ever told."""
        self._loop = loop
        self._arrived = arrived
        self._kernel = _Inotify()
        if self._kernel.watch(folder, _CLOSED | _MOVED_TO):
            loop.add_reader(self._kernel.fd, self._read)

    def close(self) -> None:
        """Idempotent."""
        if self._kernel.fd >= 0:
            self._loop.remove_reader(self._kernel.fd)
            self._kernel.close()

    def _read(self) -> None:
        data = self._kernel.read()
        names, offset, missed = set[str](), 0, False
        while offset < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size
            names.add(os.fsdecode(data[offset : offset + length].rstrip(b"\0")))
            offset += length
            missed = missed or bool(mask & _OVERFLOW)
        self._arrived(None if missed else names)


class Writes:
    """Waits until something is written in folders; looks from time to time where the kernel does not tell."""

    def __init__(self) -> None:
        self._kernel = _Inotify()
        self._watched: set[str] = set()
        self.told = self._kernel.fd >= 0
        """The kernel tells of everything that is watched."""

    def watch(self, folder: str) -> None:
        """Once for each folder; one that does not exist yet is not watched."""
        if folder in self._watched or self._kernel.fd < 0:
            return
        if self._kernel.watch(folder, _MODIFIED | _CLOSED | _MOVED_FROM | _MOVED_TO | _CREATED | _DELETED):
            self._watched.add(folder)
        elif os.path.isdir(folder):
            self.told = False  # no watches are left

    def wait(self, others: Sequence[int], most_s: float | None) -> None:
        """Until something is written, one of the descriptors *others* can be read, or *most_s* are over."""
        if not self.told:
            most_s = LOOK_S if most_s is None else min(LOOK_S, most_s)
        poll = select.poll()
        for fd in (*others, *([self._kernel.fd] if self._kernel.fd >= 0 else [])):
            poll.register(fd, select.POLLIN)
        poll.poll(None if most_s is None else max(0, int(most_s * 1000)))
        while self._kernel.read():
            pass

    def close(self) -> None:
        """Idempotent."""
        self._kernel.close()
