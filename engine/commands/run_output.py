"""What a run writes, passed on as it comes: its standard output to ours, its standard error to ours."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Mapping
from typing import Protocol, TextIO

from ..logs.files import AttemptPaths
from .logfile import LogFile
from .logprint import Printer
from .logtext import Lines
from .screen import Screen

_PARTS = 16
"""Chunks of one stream that are shown before the other has its turn."""


class _Sink(Protocol):
    def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when nobody reads."""
        ...

    def rest(self) -> None:
        """Show what is not a whole line yet: more may come."""
        ...

    def end(self) -> None: ...


class Output:
    """Of one run, through its attempts."""

    def __init__(self, name: str, out: TextIO, err: TextIO, environ: Mapping[str, str]) -> None:
        """Where *out* or *err* is a terminal, nothing that it would obey but colours is let through to it; a pipe or a
        file gets every byte as it is."""
        # On one screen a line that is drawn in place is wiped before the other stream writes.
        screen = _printer(name, out, environ) if out.isatty() and err.isatty() else None
        sinks: list[_Sink] = []
        for stream in (out, err):
            stream.flush()
            if stream.isatty():
                sinks.append(_OnTerminal(name, screen or _printer(name, stream, environ)))
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


class _Stream:
    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self._path = ""
        self._file: LogFile | None = None

    def go_over(self, path: str) -> None:
        if path != self._path:
            while self.drain():
                pass
            self.end()
            self._path = path

    def drain(self) -> int:
        """Pass on some of what is there; 0: that was all."""
        if self._file is None:
            self._file = LogFile.open(self._path) if self._path else None
        size = 0
        for _ in range(_PARTS if self._file is not None else 0):
            data = self._file.read() if self._file is not None else b""
            if not data:
                break
            size += len(data)
            self._sink.write(data)
        if size:
            self._sink.rest()
        return size

    def end(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._sink.end()
        self._path = ""


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


class _OnTerminal:
    def __init__(self, name: str, printer: Printer) -> None:
        self._name = name
        self._printer = printer
        self._lines = Lines(colour=printer.colour)

    def write(self, data: bytes) -> None:
        self._printer.lines(self._name, self._lines.feed(data))

    def rest(self) -> None:
        self._printer.moving(self._name, self._lines.rest(), bar=self._lines.moving)
        self._printer.flush()

    def end(self) -> None:
        if text := self._lines.end():
            self._printer.lines(self._name, [text])
        self._printer.close()
