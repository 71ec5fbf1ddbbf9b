"""Times, sizes and numbers as the screen writes them; texts from outside, cut to the cells that they may take. Pure."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from rich.cells import cell_len

from ...engine.text import DAY_S, HOUR_S, MINUTE_S, size_text
from ...engine.text import duration as duration
from ...engine.text import plural as plural
from ...engine.text import ranges as ranges

TEXT_CHARS = 400
"""Of a text from outside no more is looked at."""
NUMBER_CELLS = 9
_SPARKS = "▁▂▃▄▅▆▇█"
_HEAPS = re.compile(r"([\u0300-\u036f]{3})[\u0300-\u036f]+")
"""Accents on accents reach into the lines above and below."""
_SELECTORS = frozenset(range(0xFE00, 0xFE10)) | frozenset(range(0xE0100, 0xE01F0))
"""Terminals disagree on how many cells a character takes that one of these follows."""

# -- texts from outside -----------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """*text* on one line, with nothing in it that a terminal obeys, reorders or counts otherwise than we do."""
    text = text[:TEXT_CHARS]
    if text.isascii() and text.isprintable():
        return text
    text = "".join(map(_harmless, unicodedata.normalize("NFC", text)))
    return _HEAPS.sub(r"\1", text)


@lru_cache(4096)
def _harmless(char: str) -> str:
    match unicodedata.category(char):
        case "Cc":
            return " " if char in "\t\n\r" else ""
        case "Zs" | "Zl" | "Zp":
            return " "
        case "Cf":  # bidi controls, joiners, soft hyphens
            return ""
        case "Cs" | "Co" | "Cn":
            return "�"
        case _:
            return "" if ord(char) in _SELECTORS else char


def width_of(text: str) -> int:
    """Cells that a clean text takes."""
    return len(text) if text.isascii() else cell_len(text)


def length(line: Iterable[tuple[str, *tuple[object, ...]]]) -> int:
    """Cells that a line of pieces takes, each a clean text and what is said of it."""
    return sum(width_of(piece[0]) for piece in line)


def cut(text: str, width: int) -> str:
    """The beginning of *text* in at most *width* cells, with an ellipsis where something is missing."""
    if width_of(text) <= width:
        return text
    return _head(text, width - 1) + "…" if width > 0 else ""


def cut_middle(text: str, width: int) -> str:
    """Both ends of *text*: tasks of a sweep differ at the end of their names."""
    if width_of(text) <= width:
        return text
    if width < 6:
        return cut(text, width)
    tail = (width - 1) * 3 // 5
    return _head(text, width - 1 - tail) + "…" + _tail(text, tail)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Exactly *width* cells of it."""
    text = cut(text, width)
    blank = " " * (width - width_of(text))
    return blank + text if right else text + blank


_Tone = TypeVar("_Tone")


def clipped(pieces: Sequence[tuple[str, _Tone]], width: int) -> tuple[tuple[str, _Tone], ...]:
    """The beginning of a line made of *pieces*, each with its tone, in at most *width* cells."""
    found: list[tuple[str, _Tone]] = []
    for text, tone in pieces:
        shown = cut(text, width)
        found.append((shown, tone))
        width -= width_of(shown)
    return tuple(found)


def _head(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    end = len(text)
    while end and cell_len(text[:end]) > width:
        end -= 1
    return text[:end]


def _tail(text: str, width: int) -> str:
    if text.isascii():
        return text[len(text) - width :]
    start = 0
    while start < len(text) and (cell_len(text[start:]) > width or unicodedata.combining(text[start])):
        start += 1
    return text[start:]


# -- times ------------------------------------------------------------------------------------------------------------


def about(seconds: float | None) -> str:
    """A span that nobody knows to the second: "~42s", "~12m", "~3h10m", "~2d07h"."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    if MINUTE_S <= seconds < HOUR_S:
        return f"~{round(seconds / MINUTE_S)}m" if seconds < HOUR_S - MINUTE_S / 2 else "~1h00m"
    return f"~{duration(seconds)}"


def clock(wall_s: float, now_s: float, *, seconds: bool = False) -> str:
    """Local time of day; with the day where it is not today's: "14:02", "Sat 14:02", "2026-03-01"."""
    try:
        then, now = time.localtime(wall_s), time.localtime(now_s)
    except (OverflowError, ValueError, OSError):
        return "?"
    if then[:3] == now[:3]:
        return time.strftime("%H:%M:%S" if seconds else "%H:%M", then)
    return time.strftime("%a %H:%M" if abs(wall_s - now_s) < 6 * DAY_S else "%Y-%m-%d", then)


# -- numbers ----------------------------------------------------------------------------------------------------------


def count(number: int) -> str:
    """ "10,000"."""
    return f"{number:,}"


def percent(share: float) -> str:
    """Of 0 to 1; 100 % is said of what is complete only."""
    return f"{min(math.floor(share * 100), 100)}%" if math.isfinite(share) else ""


def mib(mib_count: float) -> str:
    """Mebibytes as `size_text` writes bytes."""
    return size_text(round(mib_count * 1024 * 1024))


# -- small pictures ---------------------------------------------------------------------------------------------------


def bar(share: float, width: int) -> tuple[str, str]:
    """A line of *width* cells in two parts, done and to do, to the half cell: "━━━╾" and "────"."""
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    halves = int(share * width * 2)
    done = "━" * (halves // 2) + ("╾" if halves % 2 else "")
    return done, "─" * (width - len(done))


def _place(cell: int, width: int, count: int) -> int:
    return round(cell * (count - 1) / (width - 1)) if width > 1 else count - 1


def sparkline(values: Sequence[float], width: int) -> str:
    """All of *values* from the first to the last in at most *width* cells, scaled between their least and greatest; a
    blank where a value is not finite."""
    shown = values if len(values) <= width else [values[_place(cell, width, len(values))] for cell in range(width)]
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return " " * len(shown)
    low, high = min(finite), max(finite)
    # Halved first: the difference of two huge values would be infinite.
    span = high / 2 - low / 2
    top = len(_SPARKS) - 1
    return "".join(
        " " if not math.isfinite(value) else _SPARKS[round((value / 2 - low / 2) / span * top) if span else top // 2]
        for value in shown
    )
