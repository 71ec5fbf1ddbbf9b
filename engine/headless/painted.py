"""A line as it is printed: how much it matters, what it is to the eye, the columns that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from ..text import log_line, plural

Tone = Literal["plain", "good", "bad", "warn", "dim", "bold", "command"]
"""What a line is to the eye; `command`: it is meant for a CI service, and nothing from outside may look like it."""

MAX_DIGEST_LINES = 60
"""Of a failure's log; the last ones."""


class Weight(IntEnum):
    DETAIL = 0
    """Only with -v."""
    NORMAL = 1
    VITAL = 2
    """Also with -q."""


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    """Printable, without a line break."""
    weight: Weight = Weight.NORMAL
    tone: Tone = "plain"


_SGR: dict[Tone, str] = {"good": "32", "bad": "31", "warn": "33", "dim": "2", "bold": "1"}


def paint(line: Line, *, colour: bool) -> str:
    code = _SGR.get(line.tone) if colour and line.text else None
    return f"\x1b[{code}m{line.text}\x1b[0m" if code else line.text


def digest_lines(digest: tuple[str, ...], weight: Weight = Weight.VITAL) -> list[Line]:
    """A bar before each line keeps a log's text from being read as one of ours, or as a command of a CI service."""
    shown = [log_line(text) for text in digest[-MAX_DIGEST_LINES:]]
    if len(shown) < len(digest):
        shown.insert(0, f"… {plural(len(digest) - len(shown), 'line')} before")
    return [Line(f"  | {text}".rstrip(), weight, "dim") for text in shown]
