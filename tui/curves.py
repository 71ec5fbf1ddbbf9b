"""Curves of metrics from lines of logs, thinned where they are long, and drawn as charts. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..engine.logs.marks import Rank, marks_in, number_of, said_in
from .drawing.format import clean, cut, fit, number, width_of
from .drawing.paragraphs import Line, Span

MOST_CURVES = 32
KEPT = 256
"""Spans of one curve; each has its least and its greatest value."""

Point = tuple[float, float]
Find = Callable[[str], list[float]]

_SAID_STEPS = ("step", "global_step", "iter", "iteration", "epoch", "batch")
"""Numbers of `::gpudeck` lines that say where a value belongs, the finest first."""
_SAID_PROGRESS = re.compile(r"\bprogress=(\d+(?:\.\d+)?)/")
_WORDS = (  # what ends with another one is found by it, and is the longer name
    "loss", "acc", "accuracy", "lr", "learning_rate", "grad_norm", "ppl", "perplexity", "reward", "f1", "auc",
    "map", "miou", "iou", "bleu", "rouge", "psnr", "ssim", "fid", "mse", "mae", "rmse", "error", "top1", "top5",
)  # fmt: skip
_COUNTED = ("poch", "step", "iter", "batch", "%|", "[=", "━", "progress")
"""A line without any of these has no counter."""
_ALONE = re.compile(r"(?<![a-z_])(?:global[_ ])?(step|iter|iteration)[\s:=#]{0,4}(\d{1,15})(?!\d|\s{0,2}/)")
_BEFORE = re.compile(r"(?:^|[^A-Za-z0-9_./-])((?:[A-Za-z][A-Za-z0-9]{0,20}[_ /.-]){0,2})$")
_NUMBER = r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:e[+-]?\d{1,3})?|nan|inf"
_VALUE = re.compile(rf"['\"]?\s{{0,2}}(?:[:=]\s{{0,4}}['\"]?({_NUMBER})|\s({_NUMBER}))(?![\w/])")
"""Behind a name. After a blank alone a whole number is prose: "error 404"."""
_LINE_CHARS = 1000
_REACH = 48
"""Characters before a word that may belong to its name."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over steps or epochs."""

    name: str
    x: str
    """What its x counts: "step", "epoch"; "value": the values themselves."""
    points: tuple[Point, ...]
    """In order; thinned out where there were many. Values may be nan or infinite."""
    count: int
    """Values before thinning."""
    last: float
    low: Point | None = None
    """(x, value) of the least; None: it never was a number."""
    high: Point | None = None


class _Track:
    """One metric while its points come in."""

    __slots__ = ("_full", "_last", "_per_span", "_spans", "count", "counted", "high", "low", "x")

    def __init__(self) -> None:
        self._spans: list[tuple[Point, Point]] = []
        """The least and the greatest of every few values, in order."""
        self._per_span = 1
        self._full = 0
        """Values in the last span."""
        self._last: Point = (0.0, math.nan)
        self.x = ""
        self.counted = False
        """Its x is the number of the value, because what the lines say goes back or changes."""
        self.count = 0
        self.low: Point | None = None
        self.high: Point | None = None

    def add(self, x: str, at: float | None, value: float) -> None:
        if not self.count:
            self.x, self.counted = x, at is None
        if not self.counted and (at is None or x != self.x or (self.count and at < self._last[0])):
            self._count_them()
        point = (float(self.count) if self.counted or at is None else at, value)
        self.count += 1
        self._last = point
        self._bounds(point)
        if self._spans and self._full < self._per_span:
            self._spans[-1] = _joined(self._spans[-1], (point, point))
            self._full += 1
            return
        if len(self._spans) >= KEPT:
            self._spans = [_joined(*self._spans[at : at + 2]) for at in range(0, KEPT, 2)]
            self._per_span *= 2
        self._spans.append((point, point))
        self._full = 1

    def _count_them(self) -> None:
        """Number the values that there are already."""
        self.counted, self.x = True, "value"
        spans, self.low, self.high = self._spans, None, None
        self._spans = []
        for place, (low, high) in enumerate(spans):
            first = float(place * self._per_span)
            self._spans.append(((first, low[1]), (first, high[1])))
            self._bounds(self._spans[-1][0])
            self._bounds(self._spans[-1][1])

    def _bounds(self, point: Point) -> None:
        if math.isfinite(point[1]):
            self.low = point if self.low is None or point[1] < self.low[1] else self.low
            self.high = point if self.high is None or point[1] > self.high[1] else self.high

    def curve(self, name: str) -> Curve:
        points: list[Point] = []
        for low, high in self._spans:
            points += (low,) if low == high else sorted((low, high), key=lambda point: point[0])
        if points[-1] != self._last:
            points.append(self._last)
        x = "value" if self.counted else self.x
        return Curve(name, x, tuple(points), self.count, self._last[1], self.low, self.high)


def _joined(first: tuple[Point, Point], second: tuple[Point, Point]) -> tuple[Point, Point]:
    """Two spans as one. What is no number counts only where there is nothing else."""
    finite = [point for point in (*first, *second) if math.isfinite(point[1])]
    if not finite:
        return first
    return min(finite, key=lambda point: point[1]), max(finite, key=lambda point: point[1])


class Curves:
    """Feed it lines. Metrics that a task has patterns for, and those on `::gpudeck` lines; without either, numbers
    behind words that are usual in training."""

    def __init__(self, finders: Mapping[str, Find] | None = None, *, named: bool = False) -> None:
        """*finders*: by a metric's name. *named*: the task says itself what its metrics are: nothing is guessed."""
        self._finders = dict(finders or {})
        self._own = named or bool(finders)
        self._tracks: dict[str, _Track] = {}
        self._guessed: set[str] = set()
        self._epoch: float | None = None
        self._at: tuple[str, float | None] = ("value", None)
        """What is counted, and where the last line with a counter was."""

    def feed(self, line: str) -> None:
        """Take in a line or a frame of a bar, without control characters."""
        if "::gpudeck " in line:
            self._feed_said(line)
            return
        if _counts(line):
            self._where(line)
        for name, find in self._finders.items():
            for value in find(line):
                self._add(name, value)
        if not self._own:
            for name, value in guesses(line):
                self._guessed.add(name)
                self._add(name, value)

    def forget(self) -> None:
        """Patterns are of no use: one of them never ends."""
        self._finders.clear()

    def replace(self, name: str, values: Sequence[float]) -> None:
        """All that a metric has been, as a file tells it."""
        track = self._tracks[name] = _Track()
        for value in values:
            track.add("value", None, value)
        if not values:
            del self._tracks[name]

    def append(self, name: str, value: float) -> None:
        """The newest value, as a file tells it."""
        self._tracks.setdefault(name, _Track()).add("value", None, value)

    def curves(self) -> tuple[Curve, ...]:
        """As far as they have come, in the order in which they began."""
        return tuple(track.curve(name) for name, track in self._tracks.items() if track.count)

    def _feed_said(self, line: str) -> None:
        _, values = said_in(line)
        if values and not self._own:
            self._own = True
            for name in self._guessed:
                self._tracks.pop(name, None)
        place = next((name for name in _SAID_STEPS if name in values), "")
        where: tuple[str, float | None] = (place.rpartition("_")[2], values[place]) if place else ("", None)
        if not place and (match := _SAID_PROGRESS.search(line)):
            where = ("progress", float(match[1]))
        for name, value in values.items():
            if name != place:
                self._add(name, value, where)

    def _where(self, line: str) -> None:
        marks = marks_in(line)
        epoch = next((mark for mark in marks if mark.rank is Rank.EPOCH), None)
        step = next((mark for mark in marks if mark.rank is Rank.STEP and mark.label != "percent"), None)
        if epoch is not None:
            self._epoch = epoch.number
        if step is not None and step.total and self._epoch is not None:
            self._at = ("epoch", self._epoch + step.number / step.total)
        elif epoch is not None:
            self._at = ("epoch", epoch.number)
        elif step is not None:
            self._at = ("step", step.number)
        elif alone := _ALONE.search(line[:_LINE_CHARS].lower()):
            self._at = ("step", float(alone[2]))

    def _add(self, name: str, value: float, where: tuple[str, float | None] | None = None) -> None:
        if name not in self._tracks and len(self._tracks) >= MOST_CURVES:
            return
        x, at = where or self._at
        self._tracks.setdefault(name, _Track()).add(x, at, value)


def _counts(line: str) -> bool:
    text = line.lower()
    return any(sign in text for sign in _COUNTED)


def guesses(line: str) -> list[tuple[str, float]]:
    """Names that are usual in training with the number behind each: `train loss: 0.31`, `'loss': 0.5`, `acc=0.9`."""
    text = line[:_LINE_CHARS].lower()
    found: dict[int, tuple[str, float]] = {}
    for word in _WORDS:
        start = text.find(word)
        while start >= 0:
            end = start + len(word)
            value = _VALUE.match(text, end)
            before = None if value is None else _BEFORE.search(text[max(0, start - _REACH) : start])
            if value is not None and before is not None:
                said = value[1] or value[2]
                number = number_of(said)
                if number is not None and not (value[2] and said.isdigit()):
                    found[end] = (re.sub(r"[\s-]", "_", before[1] + word), number)
            start = text.find(word, end)
    return [found[end] for end in sorted(found)]


def to_wire(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """For JSON; what is no number is written as text."""
    return [
        {
            "name": curve.name, "x": curve.x, "count": curve.count, "last": _text(curve.last),
            "points": [(x, _text(y)) for x, y in curve.points], "low": curve.low, "high": curve.high,
        }
        for curve in curves
    ]  # fmt: skip


def from_wire(said: Sequence[Mapping[str, Any]]) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            each["name"], each["x"], tuple((float(x), float(y)) for x, y in each["points"]), each["count"],
            float(each["last"]), _pair(each["low"]), _pair(each["high"]),
        )
        for each in said
    )  # fmt: skip


def _text(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _pair(point: Sequence[float] | None) -> Point | None:
    return None if point is None else (float(point[0]), float(point[1]))


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


_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Of a cell's dots, by column and by row from above."""
_COLUMNS, _ROWS = 2, 4


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
