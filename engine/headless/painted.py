"""A line as it is printed: how much it matters, what it is to the eye, the columns that it takes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from .text import log_line, plural

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


def cell_width(text: str) -> int:
    """Columns that a terminal gives the text."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Padded or cut ("…") to exactly *width* columns."""
    if (missing := width - cell_width(text)) >= 0:
        return text + " " * missing
    kept, used = "", 0
    for char in text:
        if used + _char_width(char) > width - 1:
            break
        kept, used = kept + char, used + _char_width(char)
    return f"{kept}…" + " " * (width - 1 - used)
