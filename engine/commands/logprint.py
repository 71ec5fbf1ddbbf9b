"""Lines of several logs on one output."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import BinaryIO

from ..headless.painted import cell_width, fit
from ..headless.text import printable
from .screen import out

_COLOURS = ("36", "32", "33", "35", "34", "31")
MOVING_S = 5.0
"""How often a progress bar becomes a line where it cannot be drawn in place."""
_NAME_COLUMNS = 40


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
                shown = fit(printable(text), self._columns - 1).rstrip() if _too_wide(text, self._columns) else text
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
    shown = {name: printable(name) for name in names}
    width = min(_NAME_COLUMNS, max(cell_width(text) for text in shown.values()))
    found: dict[str, str] = {}
    for at, (name, text) in enumerate(shown.items()):
        padded = text + " " * (width - cell_width(text))
        code = _COLOURS[at % len(_COLOURS)]
        found[name] = f"\x1b[{code}m{padded} |\x1b[0m " if colour else f"{padded} | "
    return found
