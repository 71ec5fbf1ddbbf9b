"""The log of one task on its way to the output, through its attempts."""

from __future__ import annotations

import os

from ..logs.files import AttemptPaths, LogFolder
from .logfile import LogFile
from .logprint import Printer
from .logtext import Lines

_PARTS = 16
"""Chunks of one log that are shown before the next log has its turn."""


class Feed:
    """Opens one attempt's log after the other."""

    def __init__(self, name: str, logs: LogFolder, printer: Printer, *, err: bool, rank: int = 0) -> None:
        self.name = name
        self.attempt = 0
        """Whose log is open; 0: none."""
        self._logs = logs
        self._printer = printer
        self._err = err
        self._rank = rank
        self._file: LogFile | None = None
        self._lines = Lines(colour=printer.colour)

    def paths(self, number: int) -> AttemptPaths:
        """Of the rank that is shown."""
        return self._logs.paths(self.name, number, False).of_rank(self._rank)

    def path(self, number: int) -> str:
        """Standard output, or standard error; where the two are one file, that."""
        paths = self.paths(number)
        return paths.err if self._err and os.path.exists(paths.err) else paths.out

    def has_errors(self, number: int) -> bool:
        """Something was written to standard error."""
        try:
            return os.path.getsize(self.paths(number).err) > 0
        except OSError:
            return False

    def open(self, number: int, last: int | None) -> bool:
        """Go over to an attempt: to its *last* lines, None: to its beginning. Returns whether there is a log."""
        found = LogFile.open(self.path(number))
        if found is None:
            return False
        self.end()
        if last is not None:
            found.seek_last(last)
        self._file, self.attempt = found, number
        return True

    def drain(self) -> int:
        """Print what is there; returns how many bytes that was. Much is done in parts: call again until it is 0."""
        if self._file is None:
            return 0
        size = 0
        for _ in range(_PARTS):
            data = self._file.read()
            if not data:
                break
            size += len(data)
            self._printer.lines(self.name, self._lines.feed(data))
        if size:
            self._printer.moving(self.name, self._lines.rest(), bar=self._lines.moving)
        return size

    def end(self) -> None:
        """Print what is left of the log that is open, and close it. Idempotent."""
        if self._file is None:
            return
        while self.drain():
            pass
        if rest := self._lines.end():
            self._printer.lines(self.name, [rest])
        self._file.close()
        self._file = None
