"""A metric as a chart: its name and numbers, a braille line, what its axes say. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..drawing.format import clean, cut, fit, number, width_of
from ..drawing.paragraphs import Line, Span
from .lines import Curve
from .plot import plot

ROWS = 6
_GUTTER = 10
_LEAST_WIDTH = 24


@lru_cache(maxsize=64)
def chart(curve: Curve, width: int, rows: int = ROWS) -> Sequence[Line]:
    """*rows* of plot between a line of numbers and one for the x axis. Of a single value: the first line only."""
    lines = _numbers(curve, width)
    if curve.low is None or curve.high is None or curve.count < 2 or width < _LEAST_WIDTH:
        return lines
    low, high = curve.low[1], curve.high[1]
    drawn = plot(curve.points, width - _GUTTER - 1, rows, low=low, high=high)
    for at, text in enumerate(drawn):
        label = number(high) if not at else number(low) if at == rows - 1 else ""
        lines.append((Span(fit(label, _GUTTER - 1, right=True) + " "), Span("│", "muted"), Span(text, "curve")))
    lines.append(_axis(curve, width))
    return lines


def _numbers(curve: Curve, width: int) -> list[Line]:
    """Its name and last value; the extremes with where they were."""
    name, last = cut(clean(curve.name), max(4, width // 2)), number(curve.last)
    line = [Span(name, "strong"), Span(cut(f"  {last}", width - width_of(name)))]
    rest = width - width_of(name) - len(last) - 2
    parts: list[str] = []
    if curve.low is not None and curve.high is not None and curve.count > 1:
        parts = [f"{word} {number(y)} at {_at(curve, x)}" for word, (x, y) in (("min", curve.low), ("max", curve.high))]
    for part in parts:
        if len(part) + 3 <= rest:
            line.append(Span("   " + part, "muted"))
            rest -= len(part) + 3
    return [tuple(line)]


def _axis(curve: Curve, width: int) -> Line:
    first, last = (_x(curve, x) for x in (curve.points[0][0], curve.points[-1][0]))
    left = f"{curve.x} {first}"
    middle = " " * max(1, width - _GUTTER - 1 - len(left) - len(last))
    return (Span(" " * _GUTTER), Span(cut(f"└{left}{middle}{last}", width - _GUTTER), "muted"))


def _at(curve: Curve, x: float) -> str:
    return f"{curve.x} {_x(curve, x)}"


def _x(curve: Curve, x: float) -> str:
    """Values are counted from 1, as people do."""
    x = x + 1 if curve.x == "value" else x
    return f"{x:,.0f}" if x == int(x) else f"{x:,.2f}"
