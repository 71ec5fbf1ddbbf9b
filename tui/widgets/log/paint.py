"""A log's frame as lines: its rows in their colours, what a search and the mouse have marked, the bar at the edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from ...logs.lines import Colour, Sgr
from ...logs.viewport import Frame, Row

if TYPE_CHECKING:
    from ...logs.search import Hits

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


@dataclass(frozen=True, slots=True)
class Marks:
    """What of a search is to be seen."""

    needle: str = ""
    """Text that is marked wherever it stands."""
    hits: Hits | None = None
    current: int = -1
    """The line that a search stands on."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is drawn at once."""

    frame: Frame
    marks: Marks
    selected: Selection | None
    sideways: int
    """Cells that are scrolled away on the left."""
    columns: int
    """For text."""
    height: int
    bar: bool
    nothing: str
    """What stands there where there are no rows."""


class Paint:
    """Of one sight; styles are looked up once. *look*: the style of a part, *selection* that of selected text."""

    def __init__(self, sight: Sight, base: Style, look: Callable[[str], Style], selection: Callable[[], Style]) -> None:
        self._sight = sight
        self._base = base
        self._find = look
        self._selection = selection
        self._looks: dict[str, Style] = {}
        self._thumb = thumb(sight.frame, sight.height)

    def line(self, y: int) -> Strip:
        sight, base = self._sight, self._base
        rows, columns = sight.frame.rows, sight.columns
        if y < len(rows):
            pieces = segments(rows[y], base, self._overlays(rows[y], y))
        elif y == 0:
            pieces = [Segment(sight.nothing, base + self._look("note"))]
        else:
            pieces = []
        drawn = placed(window(pieces, sight.sideways, columns, base), sight.sideways, y)
        if sight.bar:
            drawn.append(self._bar_at(y))
        return Strip(drawn, columns + sight.bar)

    def _overlays(self, row: Row, y: int) -> list[Overlay]:
        marks, found = self._sight.marks, list[Overlay]()
        end = len(row.text)
        if row.note:
            found.append((end - row.note, end, self._look("note")))
        if row.line == marks.current:
            found.append((0, end, self._look("current")))
        elif marks.hits is not None and not marks.needle and row.line in marks.hits:
            found.append((0, end, self._look("hit-line")))
        if marks.needle:
            found += [(first, last, self._look("hit")) for first, last in occurrences(row.text, marks.needle)]
        if self._sight.selected is not None and (span := self._sight.selected.get_span(y)) is not None:
            first, last = span
            found.append((first, end if last == -1 else last, self._selection()))
        return found

    def _look(self, name: str) -> Style:
        if name not in self._looks:
            self._looks[name] = self._find(name)
        return self._looks[name]

    def _bar_at(self, y: int) -> Segment:
        first, last = self._thumb
        if not last:
            return Segment(" ", self._base)
        inside = first <= y < last
        return Segment("┃" if inside else "│", self._base + self._look("thumb" if inside else "bar"))
