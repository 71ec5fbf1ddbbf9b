"""Curves of metrics drawn as charts of braille dots. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..engine.logs.curves import Curve, Point
from ..engine.results.overlay import Drawn, value_at, x_text
from ..engine.text import measured
from .drawing.format import clean, cut, fit, width_of
from .drawing.paragraphs import Line, Span

BLANK = " "
_LEVELS = 4
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
"""Dots of a cell's left column, filled from below by 0 to 4."""
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


def area(values: Sequence[float | None], width: int) -> str:
    """A line of *width* cells of percentages; the newest of *values* (oldest first) at the right edge.

    A reading of zero still shows its lowest dot, so that it differs from a gap (None, or no reading that old).
    """
    wanted = 2 * width
    levels = [0 if value is None else _level(value) for value in values[-wanted:]] if width > 0 else []
    levels = [0] * (wanted - len(levels)) + levels
    return "".join(_cell(left, right) for left, right in zip(levels[::2], levels[1::2], strict=True))


def _level(percent: float) -> int:
    if math.isnan(percent):
        return 0
    return max(1, round(min(100.0, max(0.0, percent)) / 100 * _LEVELS))


def _cell(left: int, right: int) -> str:
    bits = _LEFT[left] | _RIGHT[right]
    return chr(0x2800 + bits) if bits else BLANK


_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Of a cell's dots, by column and by row from above."""
_COLUMNS, _ROWS = 2, 4


def plot(points: Sequence[Point], width: int, height: int, *, low: float, high: float) -> list[str]:
    """*height* lines of *width* cells, the upper one first, with (x, y) joined by lines.

    *points* come in the order of their x. *low*, *high*: the values at the lower and upper edge. What is no number
    interrupts the line; without any point that is one all cells are blank.
    """
    xs = [point[0] for point in points if _can_be_drawn(point, log=False)]
    if not xs or width <= 0 or height <= 0:
        return _Canvas(width, height).lines()
    return _drawn(points, Frame(min(xs), max(xs), low, high), width, height).lines()


def _place(value: float, low: float, high: float, count: int) -> int:
    """Which of *count* places a value is at; in the middle where all values are the same."""
    # Halved first: the difference of two huge values would be infinite.
    span = high / 2 - low / 2
    if not span > 0:
        return (count - 1) // 2
    share = (value / 2 - low / 2) / span
    return round(min(1.0, max(0.0, share)) * (count - 1))


class _Canvas:
    def __init__(self, width: int, height: int) -> None:
        self.cells = [[0] * max(0, width) for _ in range(max(0, height))]

    def line(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Dots from one place to another, ends included."""
        (x, y), (to_x, to_y) = first, last
        cells = self.cells
        if x == to_x:  # most of a noisy curve
            for at in range(min(y, to_y), max(y, to_y) + 1):
                cells[at // _ROWS][x // _COLUMNS] |= _BITS[x % _COLUMNS][at % _ROWS]
            return
        steps = max(abs(to_x - x), abs(to_y - y))
        for step in range(steps + 1):
            at_x, at_y = x + round((to_x - x) * step / steps), y + round((to_y - y) * step / steps)
            cells[at_y // _ROWS][at_x // _COLUMNS] |= _BITS[at_x % _COLUMNS][at_y % _ROWS]

    def lines(self) -> list[str]:
        return ["".join(chr(0x2800 + bits) if bits else BLANK for bits in row) for row in self.cells]


ROWS = 6
_GUTTER = 10
_LEAST_WIDTH = 24


@lru_cache(maxsize=64)
def chart(curve: Curve, width: int) -> Sequence[Line]:
    """A plot between a line of numbers and one for the x axis. Of a single value: the first line only."""
    lines = _numbers(curve, width)
    if curve.low is None or curve.high is None or curve.count < 2 or width < _LEAST_WIDTH:
        return lines
    low, high = curve.low[1], curve.high[1]
    drawn = plot(curve.points, width - _GUTTER - 1, ROWS, low=low, high=high)
    for at, text in enumerate(drawn):
        label = measured(high) if not at else measured(low) if at == ROWS - 1 else ""
        lines.append((Span(fit(label, _GUTTER - 1, right=True) + " "), Span("│", "muted"), Span(text, "curve")))
    lines.append(_axis(curve, width))
    return lines


def _numbers(curve: Curve, width: int) -> list[Line]:
    """Its name and last value; the extremes with where they were."""
    name, last = cut(clean(curve.name), max(4, width // 2)), measured(curve.last)
    line = [Span(name, "strong"), Span(cut(f"  {last}", width - width_of(name)))]
    rest = width - width_of(name) - len(last) - 2
    parts: list[str] = []
    if curve.low is not None and curve.high is not None and curve.count > 1:
        ends = (("min", curve.low), ("max", curve.high))
        parts = [f"{word} {measured(y)} at {curve.x} {x_text(curve.x, x)}" for word, (x, y) in ends]
    for part in parts:
        if len(part) + 3 <= rest:
            line.append(Span("   " + part, "muted"))
            rest -= len(part) + 3
    return [tuple(line)]


def _axis(curve: Curve, width: int) -> Line:
    first, last = (x_text(curve.x, x) for x in (curve.points[0][0], curve.points[-1][0]))
    left = f"{curve.x} {first}"
    middle = " " * max(1, width - _GUTTER - 1 - len(left) - len(last))
    return (Span(" " * _GUTTER), Span(cut(f"└{left}{middle}{last}", width - _GUTTER), "muted"))


MARKS = "abcdefghijklmnopqrstuvwxyzABCD"
"""Of lines over each other, by their place: a colour alone does not tell 30 apart."""
BAND = "░"
Cell = tuple[str, int]
"""A character, and the place of the line that it belongs to; -1: of none."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The part of a plane that a picture shows."""

    left: float
    right: float
    low: float
    high: float
    log: bool = False
    """The values are drawn by their logarithm."""

    @classmethod
    def around(cls, lines: Sequence[Drawn], *, log: bool) -> Frame | None:
        """All that can be drawn; None: nothing can."""
        points = [point for line in lines for point in line.all_points() if _can_be_drawn(point, log=log)]
        if not points:
            return None
        xs, ys = [x for x, _ in points], [y for _, y in points]
        return cls(min(xs), max(xs), min(ys), max(ys), log)

    def row(self, value: float, dots: int) -> int:
        """Of so many dots, from above."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        y = (math.log(value) if value > 0 else low) if self.log else value
        return dots - 1 - _place(y, low, high, dots)

    def column(self, x: float, dots: int) -> int:
        return _place(x, self.left, self.right, dots)

    def x_at(self, column: int, columns: int) -> float:
        return self.left + (self.right - self.left) * column / max(1, columns - 1)


def _can_be_drawn(point: Point, *, log: bool) -> bool:
    return math.isfinite(point[0]) and math.isfinite(point[1]) and (point[1] > 0 or not log)


def overlay(
    lines: Sequence[Drawn], frame: Frame, width: int, height: int, *, first: int, bands: Collection[int]
) -> list[list[Cell]]:
    """*lines* over each other in *height* lines of *width* cells; the one at place *first* above the others, *bands* of
    these below all. Each line has its mark at its end and here and there."""
    picture: list[list[Cell]] = [[(BLANK, -1)] * width for _ in range(height)]
    order = sorted(range(len(lines)), key=lambda place: place == first)
    for place in order:
        band = lines[place].band
        if place in bands and band is not None:
            _shade(picture, band, frame, place)
    canvases = {place: _drawn(lines[place].points, frame, width, height) for place in order}
    for place in order:
        for y, row in enumerate(canvases[place].cells):
            for x, bits in enumerate(row):
                if bits:
                    under = picture[y][x][0]
                    picture[y][x] = (chr((ord(under) if under >= "\u2800" else 0x2800) | bits), place)
    for place in reversed(order):
        _mark(picture, canvases[place].cells, place)
    return picture


def _drawn(points: Sequence[Point], frame: Frame, width: int, height: int) -> _Canvas:
    canvas = _Canvas(width, height)
    before: tuple[int, int] | None = None
    for point in points:
        if not _can_be_drawn(point, log=frame.log):
            before = None
            continue
        here = (frame.column(point[0], width * _COLUMNS), frame.row(point[1], height * _ROWS))
        canvas.line(before or here, here)
        before = here
    return canvas


def _shade(picture: list[list[Cell]], band: tuple[Sequence[Point], Sequence[Point]], frame: Frame, place: int) -> None:
    height, width = len(picture), len(picture[0])
    low, high = band
    for x in range(width):
        at = frame.x_at(x, width)
        under, over = value_at(low, at), value_at(high, at)
        if under is not None and over is not None and math.isfinite(under) and math.isfinite(over):
            for y in range(frame.row(over, height), frame.row(under, height) + 1):
                picture[y][x] = (BAND, place)


def _mark(picture: list[list[Cell]], cells: Sequence[Sequence[int]], place: int) -> None:
    """At its end, or as near to it as there is room, and at places of its own."""
    width = len(picture[0])
    rows = {x: y for x in range(width) for y in reversed(range(len(cells))) if cells[y][x]}
    step = max(12, width // 4)
    ends = [x for x in sorted(rows, reverse=True) if picture[rows[x]][x][0] not in MARKS][:1]
    for x in (*ends, *range(3 * place % step, width - step // 2, step)):
        if x in rows and picture[rows[x]][x][0] not in MARKS:
            picture[rows[x]][x] = (MARKS[place], place)
