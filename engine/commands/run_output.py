"""What a run writes, passed on as it comes: its standard output to ours, its standard error to ours."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from typing import TextIO

from ..logs.files import AttemptPaths
from .logprint import LogFeed, PrintedLog, Printer, Sink
from .screen import Screen


class Output:
    """Of one run, through its attempts."""

    def __init__(self, name: str, out: TextIO, err: TextIO, environ: Mapping[str, str]) -> None:
        """Where *out* or *err* is a terminal, nothing that it would obey but colours is let through to it; a pipe or a
        file gets every byte as it is."""
        # On one screen a line that is drawn in place is wiped before the other stream writes.
        screen = _printer(name, out, environ) if out.isatty() and err.isatty() else None
        sinks: list[Sink] = []
        for stream in (out, err):
            stream.flush()
            if stream.isatty():
                sinks.append(PrintedLog(name, screen or _printer(name, stream, environ)))
            else:
                sinks.append(_Raw(stream.fileno()))
        self._streams = tuple(map(_Stream, sinks))

    @classmethod
    def ours(cls, name: str) -> Output:
        return cls(name, sys.stdout, sys.stderr, os.environ)

    def go_over(self, paths: AttemptPaths) -> None:
        """To another attempt. Its logs need not be there yet."""
        for stream, path in zip(self._streams, (paths.out, paths.err), strict=True):
            stream.go_over(path)

    def show(self) -> bool:
        """Pass on some of what is there. Returns whether there was any. Raises BrokenPipeError when nobody reads."""
        return sum(stream.drain() for stream in self._streams) > 0

    def end(self) -> None:
        """The run is over: pass on the rest."""
        while self.show():
            pass
        for stream in self._streams:
            stream.end()


class _Stream(LogFeed):
    """Its log need not be there yet."""

    _path = ""

    def go_over(self, path: str) -> None:
        if path != self._path:
            self.end()
            self._path = path

    def drain(self) -> int:
        if not self.is_open and self._path:
            self.begin(self._path)
        return super().drain()


class _Raw:
    """A pipe or a file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:  # somebody else has made the pipe so
                select.select([], [self._fd], [])

    def rest(self) -> None: ...
    def end(self) -> None: ...


def _printer(name: str, stream: TextIO, environ: Mapping[str, str]) -> Printer:
    screen = Screen.of(stream, environ)
    return Printer(stream.buffer, [name], colour=screen.colour, columns=screen.columns, follow=True)
