"""Logs on their way to a terminal: colours stay, everything else that it would obey goes; several logs share it."""

from __future__ import annotations

import codecs
import re
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO, Protocol

from ..logs.log_file import LogTail
from ..logs.printable import last_frame, printable
from ..text import cell_width, fit
from ..text import printable as name_text
from .screen import out

LINE_CHARS = 65536
"""Longer lines are cut."""

_COLOUR = re.compile(r"\x1b\[([0-9;:]{0,40})m")
_PLACE = "\ue000"
"""Stands for a colour while everything else is dropped; a character of private use, which no log means."""
_CONCEAL = "8"
_COLOURS = ("36", "32", "33", "35", "34", "31")
MOVING_S = 5.0
"""How often a progress bar becomes a line where it cannot be drawn in place."""
_NAME_COLUMNS = 40
_PARTS = 16
"""Chunks of one log that are shown before the next log has its turn."""


class Sink(Protocol):
    """Where the bytes of a log go."""

    def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when nobody reads."""
        ...

    def rest(self) -> None:
        """Show what is not a whole line yet: more may come."""
        ...

    def end(self) -> None:
        """Nothing more comes of this log."""
        ...


class LogFeed:
    """One log after the other, passed on as it is written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._log: LogTail | None = None

    @property
    def is_open(self) -> bool:
        return self._log is not None

    def begin(self, path: str, last: int | None = None) -> bool:
        """Go over to a log: to its *last* lines, None: to its beginning. False: there is none."""
        log = LogTail(path)
        if not log.is_there:
            return False
        self.end()
        if last is not None:
            log.seek_last(last)
        self._log = log
        return True

    def drain(self) -> int:
        """Pass on what is there; returns how many bytes that was. Much is done in parts: call again until it is 0."""
        size = 0
        for _ in range(_PARTS if self._log is not None else 0):
            data = self._log.read() if self._log is not None else b""
            if not data:
                break
            size += len(data)
            self._sink.write(data)
        if size:
            self._sink.rest()
        return size

    def end(self) -> None:
        """Pass on what is left of the log that is open, and close it. Idempotent."""
        if self._log is None:
            return
        while self.drain():
            pass
        self._sink.end()
        self._log.close()
        self._log = None


class Lines:
    """Bytes of a log become lines, as they come."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The lines that *data* completes."""
        *lines, rest = (self._rest + self._decoder.decode(data)).split("\n")
        if len(rest) > LINE_CHARS:
            frames = rest.rpartition("\r")[2]
            rest = rest[:LINE_CHARS] if len(frames) > LINE_CHARS else frames
        self._rest = rest
        return [self._clean(line) for line in lines]

    @property
    def moving(self) -> bool:
        """The line that is not complete is one that is written over and over, as progress bars are."""
        return "\r" in self._rest

    def rest(self) -> str:
        """The line that is not complete, as it stands."""
        return self._clean(self._rest)

    def end(self) -> str:
        """The same, and forget it."""
        text, self._rest = self.rest(), ""
        self._decoder.reset()
        return text

    def _clean(self, line: str) -> str:
        line = last_frame(line)
        if len(line) > LINE_CHARS:
            line = line[: LINE_CHARS - 1] + "…"
        if "\t" in line:
            line = line.expandtabs(8)
        if not self._colour or "\x1b" not in line:
            return printable(line)
        colours = [found[0] for found in _COLOUR.finditer(line)]
        texts = printable(_COLOUR.sub(_PLACE, line.replace(_PLACE, ""))).split(_PLACE)
        shown = [code if _harmless(code) else "" for code in colours]
        return "".join(piece for pair in zip(texts, [*shown, "\x1b[0m"], strict=True) for piece in pair)


def _harmless(code: str) -> bool:
    """Text that is made invisible would be there when it is copied."""
    numbers = re.split(r"[;:]", code[2:-1])
    return _CONCEAL not in numbers or "38" in numbers or "48" in numbers


class Printer:
    """With several names each line begins with its task's."""

    def __init__(
        self, stream: BinaryIO, names: Sequence[str], *, colour: bool, columns: int | None, follow: bool
    ) -> None:
        """*columns*: of the terminal, None: there is none. *follow*: lines that are not complete are shown as well."""
        self._stream = stream
        self._encoding = sys.stdout.encoding or "utf-8"
        self.colour = colour
        self._columns = columns
        self._follow = follow
        self._prefixes = _prefixes(names, colour=colour) if len(names) > 1 else {}
        self._drawn = False
        self._moved: dict[str, tuple[float, str]] = {}

    @classmethod
    def on_stdout(cls, names: Sequence[str], *, follow: bool) -> Printer:
        screen = out()
        return cls(sys.stdout.buffer, names, colour=screen.colour, columns=screen.columns, follow=follow)

    def lines(self, name: str, lines: Sequence[str]) -> None:
        """Print whole lines."""
        if not lines:
            return
        self._moved.pop(name, None)
        prefix = self._prefixes.get(name, "")
        self._write(self._wipe() + "".join(f"{prefix}{line}\n" for line in lines))

    def moving(self, name: str, text: str, *, bar: bool) -> None:
        """A line that is not complete: drawn in place where there is one log on a terminal; elsewhere a *bar* becomes
        a line now and then."""
        if not self._follow:
            return
        if self._columns is not None and not self._prefixes:
            if text:
                shown = fit(name_text(text), self._columns - 1).rstrip() if _too_wide(text, self._columns) else text
                self._write(self._wipe() + shown)
                self._drawn = True
        elif bar:
            at, said = self._moved.get(name, (float("-inf"), ""))
            if text != said and time.monotonic() - at >= MOVING_S:
                self._write(f"{self._prefixes.get(name, '')}{text}\n")
                self._moved[name] = time.monotonic(), text

    def flush(self) -> None:
        """Show what was printed."""
        self._stream.flush()

    def close(self) -> None:
        """What is drawn in place stays."""
        if self._drawn:
            self._write("\n")
            self._drawn = False
        self.flush()

    def _wipe(self) -> str:
        drawn, self._drawn = self._drawn, False
        return "\r\x1b[K" if drawn else ""

    def _write(self, text: str) -> None:
        self._stream.write(text.encode(self._encoding, "replace"))


def _too_wide(text: str, columns: int) -> bool:
    return "\x1b" in text or cell_width(text) >= columns


def _prefixes(names: Sequence[str], *, colour: bool) -> dict[str, str]:
    """As wide as the longest name, up to a limit."""
    shown = {name: name_text(name) for name in names}
    width = min(_NAME_COLUMNS, max(cell_width(text) for text in shown.values()))
    found: dict[str, str] = {}
    for at, (name, text) in enumerate(shown.items()):
        padded = text + " " * (width - cell_width(text))
        code = _COLOURS[at % len(_COLOURS)]
        found[name] = f"\x1b[{code}m{padded} |\x1b[0m " if colour else f"{padded} | "
    return found


class PrintedLog:
    """A sink: the lines of a printer."""

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
