"""Where a command prints and asks: how wide it is, whether it shows colours, who answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from ...engine.command import Command
from ...engine.errors import UsageError
from ...engine.headless.painted import Line, paint
from ...engine.hints import Hints
from ...engine.taskfile.problems import BadValueError
from ...engine.taskfile.units import duration_s
from ...engine.text import cell_width, fit


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


def out(command: Command | None = None, hints: Hints | None = None) -> Screen:
    """Standard output, as the *command* wants it. *hints*: how the deck is named in commands that lines name."""
    screen = Screen.of(sys.stdout, os.environ, hints)
    return replace(screen, colour=screen.colour and not (command and command.flag("no_color")))


def option_s(option: str, text: str | None) -> float | None:
    """The time that an option was given, in seconds; None: it was not. Raises UsageError."""
    try:
        return None if text is None else duration_s(text)
    except BadValueError as error:
        raise UsageError(f"{option} {error.words}") from error


def tell(command: Command, text: str, **fields: Any) -> None:
    """What came of a command: a line, or with --json *fields* as one document."""
    if command.flag("json"):
        print_json(fields)
    else:
        print(text)


def print_json(value: Any) -> None:
    """As one document, in ASCII: names may hold bytes that are no text."""
    print(json.dumps(value, indent=2))


def agreed(question: str, *, yes: bool) -> bool:
    """Ask on the terminal. Raises UsageError where nobody can be asked and -y does not say yes."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody can be asked here: -y says yes; nothing was done")
    return says_yes(question)


def says_yes(question: str) -> bool:
    """Ask on the terminal, which the caller knows to be there; only "y" and "yes" are one."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        print("\nnothing was done", file=sys.stderr)
        raise
