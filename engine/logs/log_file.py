"""A log file as it is now: it may vanish, be cut or replaced. It is read by offset, from its end, and as it grows."""

from __future__ import annotations

import os
import stat

MOST_LINE_BYTES = 16 << 20
"""Lines without end (bars that write only `\\r`, binary output) are broken where a multiple of this has no line break
in as many bytes before it: decided on the spot, hence the same from both directions."""
_STEPS = (8 << 10, 64 << 10, 1 << 20)
_WORTH_KEEPING_BYTES = 256 << 10
BLOCK_BYTES = 65536
CHUNK_BYTES = 1 << 18
FAR_BYTES = 8 << 20
"""How far back the first of the last lines is looked for, or 4 KiB a line where that is more."""
_LINE_BYTES = 4096


def open_file(path: str) -> int:
    """A descriptor of a regular file: a pipe holds up nobody, a terminal takes over nothing. Raises OSError, and
    ValueError for what is no file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError("is not a file")
    return fd


def read_at(fd: int, offset: int, count: int) -> bytes:
    """Up to *count* bytes from *offset*: fewer only where the file ends. Raises OSError."""
    pieces: list[bytes] = []
    # pread may stop short (signals, network file systems).
    while count > 0 and (piece := os.pread(fd, count, offset)):
        pieces.append(piece)
        offset += len(piece)
        count -= len(piece)
    return b"".join(pieces)


def read_part(path: str, offset: int, count: int) -> bytes:
    """Up to *count* bytes from *offset*, of a negative one from the end; b"" where it cannot be read."""
    try:
        fd = open_file(path)
    except (OSError, ValueError):
        return b""
    try:
        start = offset if offset >= 0 else max(0, os.fstat(fd).st_size + offset)
        return read_at(fd, start, count)
    except OSError:
        return b""
    finally:
        os.close(fd)


def read_tail(path: str, max_bytes: int = 65536) -> bytes:
    """The last *max_bytes* of a file as it is now; b"" when it is missing or cannot be read.

    What begins in the middle of a line begins after that line's end, unless the whole tail is one line.
    """
    raw = read_part(path, -max_bytes - 1, max_bytes + 1)
    return raw if len(raw) <= max_bytes else raw.partition(b"\n")[2] or raw[1:]


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
            self._find(afresh=afresh)
            self._measure()
        except (OSError, ValueError) as error:
            self._fail(error)
        return before != (self.generation, self.size, self.missing, self.problem)

    def read(self, offset: int, count: int) -> bytes:
        """Up to *count* bytes from *offset*: fewer only where the file ends or fails."""
        try:
            return read_at(self._fd, offset, count) if self._fd >= 0 else b""
        except OSError as error:
            self._fail(error)
            return b""

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._identity = None

    def _find(self, *, afresh: bool) -> None:
        try:
            if afresh:
                os.close(open_file(self.path))
            named = os.stat(self.path)
            if (named.st_dev, named.st_ino) != self._identity:
                self._open()
        except FileNotFoundError:
            self.missing, self.problem = True, ""
        else:
            self.missing, self.problem = False, ""

    def _open(self) -> None:
        fd = open_file(self.path)
        self.close()
        self._fd = fd
        found = os.fstat(fd)
        self._identity = (found.st_dev, found.st_ino)
        self.generation += 1
        self.size = 0

    def _measure(self) -> None:
        """Also of a file that has lost its name: who writes it may go on."""
        if self._fd >= 0:
            size = os.fstat(self._fd).st_size
            self.generation += size < self.size
            self.size = size

    def _fail(self, error: OSError | ValueError) -> None:
        self.close()
        self.problem = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        self.size, self.missing = 0, False
        self.generation += 1


class LogTail:
    """A log that is read from near its end, then as it grows; one that was replaced or begun anew from its
    beginning."""

    def __init__(self, path: str) -> None:
        self._file = LogFile(path)
        self._offset = 0
        self._file.look()
        self._generation = self._file.generation

    @property
    def is_there(self) -> bool:
        return not self._file.missing and not self._file.problem

    def seek_last(self, lines: int) -> None:
        """What is read next are the last *lines* lines. A file of a gigabyte is looked at from its end."""
        size = self._offset = self._file.size
        if lines <= 0 or not size:
            return
        lowest = max(0, size - max(FAR_BYTES, lines * _LINE_BYTES))
        wanted = lines + (self._file.read(size - 1, 1) == b"\n")
        end = size
        while end > lowest:
            start = max(lowest, end - BLOCK_BYTES)
            block = self._file.read(start, end - start)
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
        self._file.look()
        if self._file.generation != self._generation:
            self._generation, self._offset = self._file.generation, 0
        data = self._file.read(self._offset, CHUNK_BYTES)
        self._offset += len(data)
        return data

    def close(self) -> None:
        """Idempotent; nothing is read after that."""
        self._file.close()


class Breaks:
    """Where lines begin and end, found from any byte of a file in both directions without an index of it: opening,
    jumping and scrolling cost the same in a log of a kilobyte and of a terabyte, and nothing is kept in memory for it.
    Offsets that are asked for lie within the file."""

    def __init__(self, file: LogFile, most_bytes: int = MOST_LINE_BYTES) -> None:
        self._file = file
        self._most = most_bytes
        self._generation = -1
        self._clear = (0, 0)
        """A long stretch that is known to have no line break: the end of a bar that is still growing."""

    def start(self, offset: int) -> int:
        """Where the line begins that the byte at *offset* belongs to; its line break belongs to it too."""
        self._renew()
        edge = offset // self._most * self._most
        found = self._back(edge, offset)
        if found is not None or edge == 0:
            return found or 0
        below = self._back(edge - self._most, edge)
        return edge if below is None else below

    def end(self, start: int) -> tuple[int, int]:
        """Of the line that begins at *start*: where it ends, and where the next one begins."""
        self._renew()
        ceiling = self._file.size
        edge = (start // self._most + 1) * self._most
        at = start
        while True:
            stop = min(edge, ceiling)
            found = self._forth(at, stop)
            if found is not None:
                return found, found + 1
            if stop == ceiling or start <= edge - self._most:
                return stop, stop
            at, edge = stop, edge + self._most

    def _back(self, low: int, high: int) -> int | None:
        """The last place in *low* + 1 to *high* that follows a line break."""
        at, step = high, 0
        while at > low:
            first, last = self._clear
            if first < at <= last:
                at = first
                continue
            begin = max(low, at - _STEPS[min(step, len(_STEPS) - 1)], last if last < at else 0)
            found = self._file.read(begin, at - begin).rfind(b"\n")
            if found >= 0:
                self._keep(begin + found + 1, high)
                return begin + found + 1
            at, step = begin, step + 1
        self._keep(max(at, low), high)
        return None

    def _forth(self, at: int, high: int) -> int | None:
        """The first line break in *at* to *high*."""
        low, step = at, 0
        while at < high:
            first, last = self._clear
            if first <= at < last:
                at = last
                continue
            count = min(high - at, _STEPS[min(step, len(_STEPS) - 1)])
            raw = self._file.read(at, count)
            found = raw.find(b"\n")
            if found >= 0:
                self._keep(low, at + found)
                return at + found
            if not raw:
                break
            at, step = at + len(raw), step + 1
        self._keep(low, min(at, high))
        return None

    def _keep(self, low: int, high: int) -> None:
        if high - low >= _WORTH_KEEPING_BYTES:
            self._clear = (low, high)

    def _renew(self) -> None:
        if self._generation != self._file.generation:
            self._generation, self._clear = self._file.generation, (0, 0)
