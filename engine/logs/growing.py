"""Files that a running task writes: logs that grow, metrics files that are written anew."""

from __future__ import annotations

import os
import re
import stat

from .log_file import read_part
from .printable import printable

MOST_BYTES = 65536
"""Read of one log in one look; of what has grown by more, the end."""
CATCH_UP_BYTES = 262144
"""The same, of what was written while nobody read."""
LINE_CHARS = 4096
"""Longer lines are cut."""
FILE_BYTES = 4 << 20
"""Of larger metrics files the end is read."""
CLOCK_SLACK_S = 2.0
"""Time stamps of network and FAT file systems are this coarse."""

_BREAKS = re.compile(r"[\r\n]")


class Stream:
    """One growing log."""

    def __init__(self, path: str, most_bytes: int = MOST_BYTES, known: tuple[int, int] | None = None) -> None:
        """*most_bytes*: read in one call; of what has grown by more, the end. *known*: which file this was (its inode)
        when it was last read, by another reader, and how far."""
        self._path = path
        self._most_bytes = most_bytes
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._start = 0
        """Where the first read began, of a log that was long by then; 0: at its beginning."""
        self._carry = ""
        self._settled = True
        """The rest without a line end has been given out."""
        self._midway = False
        """What comes next begins in the middle of a line."""
        self.size = 0
        """In bytes, when it was looked at last."""
        self.written_wall: float | None = None
        """When it was last written, by the file system's clock; None: it is not there."""
        self._known = known
        self.old = 0
        """So many of the lines that it gave out last are known."""

    def read(self, *, final: bool = False) -> tuple[bool, list[str]]:
        """Whether it has grown since the last call, and its new lines and frames of bars.

        What has no line end yet is given out once it has not grown for a call, or at once when *final*.
        """
        try:
            found = os.stat(self._path)
        except (OSError, ValueError):
            return False, []
        if not stat.S_ISREG(found.st_mode):
            return False, []
        self.written_wall, self.size = found.st_mtime, found.st_size
        identity = (found.st_dev, found.st_ino)
        if identity != self._identity or found.st_size < self._offset:
            self._identity, self._offset, self._carry = identity, 0, ""
        grew = found.st_size > self._offset
        known = self._read_known(found)
        most = CATCH_UP_BYTES if known else self._most_bytes
        text = self._more(found.st_size, most) if found.st_size > self._offset else ""
        self.old = len(known)
        return grew, known + self._split(text, final=final or not grew)

    @property
    def taken(self) -> tuple[int, int]:
        """Which file it is (its inode), and up to where its lines were given out."""
        carried = 0 if self._settled else len(self._carry.encode())
        return self._identity[1] if self._identity else 0, max(0, self._offset - carried)

    def _read_known(self, found: os.stat_result) -> list[str]:
        """Once: the end of what another reader has read already."""
        known, self._known = self._known, None
        if known is None or known[0] != found.st_ino or not 0 < known[1] <= found.st_size:
            return []
        lines = self._split(self._more(known[1], self._most_bytes), final=False)
        self._settled = True
        return lines

    def passed_over(self) -> list[str]:
        """The lines at the beginning of a log of which only the end was read: what a program says of its settings."""
        if self._start <= 0:
            return []
        raw = read_part(self._path, 0, min(self._start, self._most_bytes))
        self._start = 0
        return [clean(piece) for piece in _BREAKS.split(raw.decode("utf-8", "replace")) if piece]

    def _more(self, size: int, most_bytes: int) -> str:
        start = max(self._offset, size - most_bytes)
        if start > self._offset:
            self._start = start if self._offset == 0 else self._start
            self._carry, self._midway = "", True
        self._offset = size
        raw = read_part(self._path, start, size - start)
        self._offset = start + len(raw) if raw else self._offset
        return raw.decode("utf-8", "replace")

    def _split(self, text: str, *, final: bool) -> list[str]:
        if text:
            pieces = _BREAKS.split(self._carry + text)
            self._carry = pieces.pop()[-LINE_CHARS:]
            self._settled = False
            if self._midway and pieces:
                pieces, self._midway = pieces[1:], False
        else:
            pieces = []
        if final and not self._settled:
            self._settled = True
            pieces.append(self._carry)
        lines = [clean(piece) for piece in pieces if piece and not piece.isspace()]
        return [line for line in lines if line]


def clean(piece: str) -> str:
    """A line or frame, cut, without what moves a cursor or colours."""
    piece = piece[:LINE_CHARS]
    if "\x1b" in piece or "\x9b" in piece:
        piece = printable(piece)
    return piece.replace("\0", "") if "\0" in piece else piece


class MetricsFile:
    """A JSON file that a task writes."""

    def __init__(self, path: str, not_before_wall: float) -> None:
        self._path = path
        self._not_before_wall = not_before_wall
        self._seen: tuple[int, int, int] | None = None

    def read(self) -> bytes | None:
        """What is in it, or its end, where it was written since the last call, and by this attempt."""
        try:
            found = os.stat(self._path)
            seen = (found.st_ino, found.st_size, found.st_mtime_ns)
            old = found.st_mtime < self._not_before_wall - CLOCK_SLACK_S
            if seen == self._seen or old or not stat.S_ISREG(found.st_mode):
                return None
        except (OSError, ValueError):
            return None
        self._seen = seen
        return read_part(self._path, -FILE_BYTES, FILE_BYTES)
