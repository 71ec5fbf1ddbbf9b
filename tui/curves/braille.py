"""Numbers over time as braille: two readings a cell side by side, four levels a line, gaps left blank."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLANK = " "
_LEVELS = 4
_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
"""Dots of a cell's left column, filled from below by 0 to 4."""
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


def area(values: Sequence[float | None], width: int, height: int = 1, *, top: float = 100.0) -> list[str]:
    """*height* lines of *width* cells, the upper one first; the newest of *values* (oldest first) at the right edge.

    A reading of zero still shows its lowest dot, so that it differs from a gap (None, or no reading that old).
    """
    dots = _LEVELS * height
    wanted = 2 * width
    levels = [0 if value is None else _level(value, top, dots) for value in values[-wanted:]] if width > 0 else []
    levels = [0] * (wanted - len(levels)) + levels
    pairs = list(zip(levels[::2], levels[1::2], strict=True))
    return [_line(pairs, below) for below in range(dots - _LEVELS, -1, -_LEVELS)]


def _level(value: float, top: float, dots: int) -> int:
    if math.isnan(value) or not top > 0:
        return 0
    return max(1, round(min(1.0, max(0.0, value / top)) * dots))


def _line(pairs: Sequence[tuple[int, int]], below: int) -> str:
    """One line of cells; *below*: levels that lie under it."""
    return "".join(_cell(left - below, right - below) for left, right in pairs)


def _cell(left: int, right: int) -> str:
    bits = _LEFT[max(0, min(_LEVELS, left))] | _RIGHT[max(0, min(_LEVELS, right))]
    return chr(0x2800 + bits) if bits else BLANK
