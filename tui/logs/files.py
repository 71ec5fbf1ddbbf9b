"""One log file as it is now: its size, whether it was replaced; read by offset."""

from __future__ import annotations

import os
import stat

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class LogFile:
    """Reads, and raises nothing: what goes wrong is in `problem`. For one thread, and not the screen's: a file server
    may hang."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self.generation = 0
        """Goes up when what was read before no longer counts: another file, or a file that was cut."""
        self.missing = False
        """Nothing has that name; what was open before can still be read."""
        self.problem = ""
        """Why it cannot be read, in words; "" where it can, or where it is merely missing."""
        self._fd = -1
        self._identity: tuple[int, int] | None = None

    def look(self, *, afresh: bool = False) -> bool:
        """Look at it again; returns whether anything about it has changed. *afresh*: opens it for that, since
        an NFS client asks its server anew then (close-to-open, nfs(5)); else it may tell what it knew a minute ago."""
        before = (self.generation, self.size, self.missing, self.problem)
        try:
            if afresh:
                os.close(os.open(self.path, _OPEN))
            self._look()
        except FileNotFoundError:
            self.missing = True
        except (OSError, ValueError) as error:
            self._fail(error)
        return before != (self.generation, self.size, self.missing, self.problem)

    def read(self, offset: int, count: int) -> bytes:
        """Up to *count* bytes from *offset*: fewer only where the file ends or fails."""
        pieces: list[bytes] = []
        try:
            while count > 0 and self._fd >= 0 and (piece := os.pread(self._fd, count, offset)):
                pieces.append(piece)
                offset += len(piece)
                count -= len(piece)
        except OSError as error:
            self._fail(error)
        return b"".join(pieces)

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._identity = None

    def _look(self) -> None:
        named = os.stat(self.path)
        if not stat.S_ISREG(named.st_mode):
            raise ValueError("is not a file")
        if (named.st_dev, named.st_ino) != self._identity:
            self._open()
        found = os.fstat(self._fd)
        if found.st_size < self.size:
            self.generation += 1
        self.missing, self.problem, self.size = False, "", found.st_size

    def _open(self) -> None:
        fd = os.open(self.path, _OPEN)
        self.close()
        self._fd = fd
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a file")
        self._identity = (found.st_dev, found.st_ino)
        self.generation += 1
        self.size = 0

    def _fail(self, error: OSError | ValueError) -> None:
        self.close()
        self.problem = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        self.size, self.missing = 0, False
        self.generation += 1
