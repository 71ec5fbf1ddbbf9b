"""Names of files that a folder has got, as the kernel tells them. It tells nothing of what other machines do there."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Callable

_CLOEXEC, _NONBLOCK = 0o2000000, 0o4000
_CLOSE_WRITE, _MOVED_TO, _OVERFLOW = 0x8, 0x80, 0x4000
_EVENT = struct.Struct("iIII")


class Arrivals:
    """Calls *arrived* on the loop's thread with names of files that were written in a folder, or moved there; with None
    where some were missed."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, folder: str, arrived: Callable[[set[str] | None], None]
    ) -> None:
        """Where the kernel has no watches left, or the folder is not there, nothing is ever told."""
        self._loop = loop
        self._arrived = arrived
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        if self._fd < 0:
            return
        libc.inotify_add_watch(self._fd, os.fsencode(folder), _CLOSE_WRITE | _MOVED_TO)
        loop.add_reader(self._fd, self._read)

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(self._fd, 65536)
        names, offset, missed = set[str](), 0, False
        while offset < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size
            names.add(os.fsdecode(data[offset : offset + length].rstrip(b"\0")))
            offset += length
            missed = missed or bool(mask & _OVERFLOW)
        self._arrived(None if missed else names)
