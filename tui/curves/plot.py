"""Numbers as a line of braille dots, two columns and four rows a cell. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .braille import BLANK

_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Of a cell's dots, by column and by row from above."""
_COLUMNS, _ROWS = 2, 4

Point = tuple[float, float]


def plot(points: Sequence[Point], width: int, height: int, *, low: float, high: float) -> list[str]:
    """*height* lines of *width* cells, the upper one first, with (x, y) joined by lines.

    *points* come in the order of their x. *low*, *high*: the values at the lower and upper edge. What is no number
    interrupts the line; without any point that is one all cells are blank.
    """
    canvas = _Canvas(width, height)
    xs = [x for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not xs or width <= 0 or height <= 0:
        return canvas.lines()
    left, right = min(xs), max(xs)
    before: tuple[int, int] | None = None
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            before = None
            continue
        here = (_place(x, left, right, width * _COLUMNS), height * _ROWS - 1 - _place(y, low, high, height * _ROWS))
        canvas.line(before or here, here)
        before = here
    return canvas.lines()


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
        self._cells = [[0] * max(0, width) for _ in range(max(0, height))]

    def line(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Dots from one place to another, ends included."""
        (x, y), (to_x, to_y) = first, last
        cells = self._cells
        if x == to_x:  # most of a noisy curve
            for at in range(min(y, to_y), max(y, to_y) + 1):
                cells[at // _ROWS][x // _COLUMNS] |= _BITS[x % _COLUMNS][at % _ROWS]
            return
        steps = max(abs(to_x - x), abs(to_y - y))
        for step in range(steps + 1):
            at_x, at_y = x + round((to_x - x) * step / steps), y + round((to_y - y) * step / steps)
            cells[at_y // _ROWS][at_x // _COLUMNS] |= _BITS[at_x % _COLUMNS][at_y % _ROWS]

    def lines(self) -> list[str]:
        return ["".join(chr(0x2800 + bits) if bits else BLANK for bits in row) for row in self._cells]
