"""Rows of a log as Textual draws them: text, colours, marks of a search, selection. No widget."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ...logs.escapes import Colour, Sgr
from ...logs.viewport import Frame, Row

Overlay = tuple[int, int, Style]
"""Characters from and to, and what is put over their looks; later ones win."""


@lru_cache(maxsize=1024)
def style_of(sgr: Sgr) -> Style:
    return Style(
        color=_colour(sgr.fg), bgcolor=_colour(sgr.bg), bold=sgr.bold or None, dim=sgr.dim or None,
        italic=sgr.italic or None, underline=sgr.underline or None, reverse=sgr.reverse or None,
        strike=sgr.strike or None,
    )  # fmt: skip


def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    return Color.from_ansi(colour) if isinstance(colour, int) else Color.from_rgb(*colour)


def segments(row: Row, base: Style, overlays: Sequence[Overlay] = ()) -> list[Segment]:
    """The row's text, each piece with its looks over *base*."""
    text = row.text
    looks = [*((start, end, style_of(sgr)) for start, end, sgr in row.spans), *overlays]
    if not looks:
        return [Segment(text, base)]
    cuts = sorted({0, len(text), *(min(at, len(text)) for start, end, _ in looks for at in (start, end))})
    found: list[Segment] = []
    for start, end in pairwise(cuts):
        style = base
        for first, last, look in looks:
            if first <= start and end <= last:
                style += look
        found.append(Segment(text[start:end], style))
    return found


def window(pieces: list[Segment], start: int, width: int, base: Style) -> list[Segment]:
    """Cells *start* to *start* + *width* of a row, filled up with blanks."""
    if not all(piece.text.isascii() for piece in pieces):
        return list(Strip(pieces).crop_extend(start, start + width, base))
    found: list[Segment] = []
    rest = width
    for text, style, _ in pieces:
        kept = text[start : start + rest]
        start = max(0, start - len(text))
        if kept:
            found.append(Segment(kept, style))
            rest -= len(kept)
    if rest:
        found.append(Segment(" " * rest, base))
    return found


def placed(pieces: list[Segment], x: int, y: int) -> list[Segment]:
    """With the place in the text that a selection by mouse needs: characters from *x* on, in line *y*."""
    found: list[Segment] = []
    for text, style, _ in pieces:
        found.append(Segment(text, _at(style or Style.null(), x, y)))
        x += len(text)
    return found


@lru_cache(maxsize=4096)
def _at(style: Style, x: int, y: int) -> Style:
    return style + Style.from_meta({"offset": (x, y)})


def thumb(frame: Frame, height: int) -> tuple[int, int]:
    """The part of the scroll bar that stands for what is seen, by bytes, because nobody has counted the lines; (0, 0)
    where all is seen."""
    if not frame.rows or (frame.at_start and frame.at_end):
        return 0, 0
    shown = max(1, round(height * (frame.below - frame.top) / max(1, frame.size)))
    first = height - shown if frame.at_end else min(height - shown, int(height * frame.top / max(1, frame.size)))
    return first, first + shown


def occurrences(text: str, needle: str) -> list[tuple[int, int]]:
    """Where *needle* stands in *text*, case of ASCII letters aside."""
    if not needle:
        return []
    lower, wanted = _lower(text), _lower(needle)
    found: list[tuple[int, int]] = []
    at = lower.find(wanted)
    while at >= 0 and len(found) < 200:
        found.append((at, at + len(needle)))
        at = lower.find(wanted, at + len(needle))
    return found


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _lower(text: str) -> str:
    return text.translate(_ASCII_LOWER)
