"""Where a command prints: how wide it is, whether it shows colours; and tables that fit."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from ..headless.painted import Line, cell_width, fit, paint
from ..headless.text import printable
from ..hints import Hints

_LEAST = 12
"""Columns that a cell which may be cut keeps."""


@dataclass(frozen=True, slots=True)
class Screen:
    columns: int | None
    """None: no terminal; nothing is cut."""
    colour: bool
    hints: Hints = field(default_factory=Hints)
    """For commands that lines name."""

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str], hints: Hints | None = None) -> Screen:
        """Colours only on a terminal, and not with NO_COLOR."""
        hints = hints or Hints()
        if not stream.isatty():
            return cls(None, False, hints)
        dumb = environ.get("TERM", "dumb") in ("dumb", "unknown", "")
        try:
            columns = os.get_terminal_size(stream.fileno()).columns or 80
        except OSError:
            columns = 80
        return cls(columns, not dumb and not environ.get("NO_COLOR"), hints)

    def show(self, lines: Sequence[Line]) -> None:
        """Print lines whose text is printable."""
        told = (replace(line, text=self.hints.completed(line.text)) for line in lines)
        text = "".join(f"{paint(self._cut(line), colour=self.colour)}\n" for line in told)
        sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "replace").decode(sys.stdout.encoding or "utf-8"))
        sys.stdout.flush()

    def _cut(self, line: Line) -> Line:
        if self.columns is None or cell_width(line.text) <= self.columns:
            return line
        return Line(fit(line.text, self.columns).rstrip(), line.weight, line.tone)


def out(hints: Hints | None = None) -> Screen:
    """Standard output. *hints*: how the deck is named in commands that lines name."""
    return Screen.of(sys.stdout, os.environ, hints)


def columns_of(rows: Sequence[Sequence[str]], width: int | None, *, last_cut: bool = True) -> list[str]:
    """Cells in columns, two spaces apart. In *width* columns the first and the last cell are cut to fit; None: no
    limit. What is in them is made printable."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(cell_width(row[at]) for row in cells) for at in range(len(cells[0]))] if cells else []
    if width is not None and widths:
        excess = sum(widths) + 2 * (len(widths) - 1) - width
        for at in (len(widths) - 1, 0) if last_cut else (0,):
            taken = max(0, min(excess, widths[at] - _LEAST))
            widths[at] -= taken
            excess -= taken
    return ["  ".join(fit(cell, room) for cell, room in zip(row, widths, strict=True)).rstrip() for row in cells]


def print_json(value: Any) -> None:
    """As one document, in ASCII: names may hold bytes that are no text."""
    print(json.dumps(value, indent=2))
