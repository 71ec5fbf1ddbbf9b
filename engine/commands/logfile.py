"""One log, read from near its end, then as it grows."""

from __future__ import annotations

import os
import stat

BLOCK_BYTES = 65536
CHUNK_BYTES = 1 << 18
FAR_BYTES = 8 << 20
"""How far back the first of the last lines is looked for, or 4 KiB a line where that is more."""
_LINE_BYTES = 4096


class LogFile:
    """A log that is open: what is written goes on being read also when it has been renamed or removed."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._offset = 0

    @classmethod
    def open(cls, path: str) -> LogFile | None:
        """None: there is none, or what is there is no file."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return cls(path, fd)
        os.close(fd)
        return None

    def seek_last(self, lines: int) -> None:
        """What is read next are the last *lines* lines. A file of a gigabyte is looked at from its end."""
        size = os.fstat(self._fd).st_size
        self._offset = size
        if lines <= 0 or not size:
            return
        lowest = max(0, size - max(FAR_BYTES, lines * _LINE_BYTES))
        wanted = lines + (os.pread(self._fd, 1, size - 1) == b"\n")
        end = size
        while end > lowest:
            start = max(lowest, end - BLOCK_BYTES)
            block = os.pread(self._fd, end - start, start)
            found = block.count(b"\n")
            if found >= wanted:
                for _ in range(wanted):
                    block = block[: block.rindex(b"\n")]
                self._offset = start + len(block) + 1
                return
            wanted -= found
            end = start
        self._offset = lowest

    def read(self) -> bytes:
        """What has been written since the last call, a part of it if it is much; b"" for nothing."""
        try:
            size = os.fstat(self._fd).st_size
            if size < self._offset:
                self._offset = 0  # it was begun anew
            self._offset = self._data(size)
            data = os.pread(self._fd, CHUNK_BYTES, self._offset)
        except OSError:
            return b""
        self._offset += len(data)
        return data

    def _data(self, size: int) -> int:
        """Where the next bytes are that were written: the middle of a log may have been given back to the disk."""
        if self._offset >= size:
            return self._offset
        try:
            return os.lseek(self._fd, self._offset, os.SEEK_DATA)
        except OSError:
            return self._offset

    def close(self) -> None:
        """Once; nothing is read after that."""
        os.close(self._fd)
