"""A lane's stretch of time as pieces of text, and what is said of an attempt. Pure; knows no widget."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from ...engine.protocol.pages import AttemptRow
from ..drawing.format import clean, clock, cut_middle, duration, ranges, width_of
from .lanes import Lane, Tone, tone_of
from .window import Window

_GLYPHS: Mapping[Tone, str] = {"good": "✓", "bad": "✗", "running": "●", "stopped": "–", "lost": "?", "mixed": "▒"}
_FILL = "─"
_LEAST_NAME = 10
"""Of a long name less than this many cells tells nothing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some cells of a lane."""

    text: str
    tone: Tone
    place: int = -1
    """Of the attempt in its lane; -1: a gap, or several attempts."""


def pieces(lane: Lane, window: Window, width: int, now_s: float) -> list[Piece]:
    """*width* cells. A cell belongs to the attempt that has at least half of it, or that it would not be seen without;
    what is too dense for that is told by one sign, as a failure if one is among it."""
    cells = [
        _cell(lane, window.start + at * window.span_s / width, window.span_s / width, now_s) for at in range(width)
    ]
    found: list[Piece] = []
    for (place, tone), run in groupby(cells):
        count = sum(1 for _ in run)
        if place < 0:
            sign = " " if tone == "gap" else _GLYPHS["mixed"]
            found.append(Piece(sign * count, tone))
        else:
            found.append(Piece(_bar(lane.rows[place], tone, count), tone, place))
    return found


def _cell(lane: Lane, start: float, length: float, now_s: float) -> tuple[int, Tone]:
    if start >= now_s:
        return -1, "gap"
    first, behind = bisect_right(lane.ends, start), bisect_left(lane.starts, start + length)
    if behind <= first:
        return -1, "gap"
    if behind - first > 2:
        return _crowd(lane, first, behind)
    hidden = any(lane.starts[place] >= start and lane.ends[place] <= start + length for place in range(first, behind))
    if hidden and behind - first > 1:
        return _crowd(lane, first, behind)
    shares = {place: _overlap(lane, place, start, start + length) for place in range(first, behind)}
    best = max(shares, key=lambda place: shares[place])
    lasts = math.isinf(lane.ends[best])
    if hidden or lasts or sum(shares.values()) >= length / 2:
        return best, tone_of(lane.rows[best])
    return -1, "gap"


def _crowd(lane: Lane, first: int, behind: int) -> tuple[int, Tone]:
    """Several attempts in one cell."""
    return -1, "bad" if lane.failed[behind] > lane.failed[first] else "mixed"


def _overlap(lane: Lane, place: int, start: float, end: float) -> float:
    return min(lane.ends[place], end) - max(lane.starts[place], start)


def _bar(row: AttemptRow, tone: Tone, width: int) -> str:
    glyph = _GLYPHS[tone]
    name = clean(row.task)
    if width - 2 < min(width_of(name), _LEAST_NAME):
        return glyph + _FILL * (width - 1)
    name = cut_middle(name, width - 2)
    return f"{glyph}{name} " + _FILL * (width - 2 - width_of(name))


def told(row: AttemptRow, now_s: float) -> str:
    """One line about an attempt."""
    end = now_s if row.end is None else row.end
    until = "now" if row.end is None else clock(end, now_s, seconds=True)
    where = f"GPU {ranges(row.gpus)}" if row.gpus else "CPU"
    parts = (
        f"{_GLYPHS[tone_of(row)]} {clean(row.task)}", f"attempt {row.attempt}", where, duration(end - row.start),
        f"{clock(row.start, now_s, seconds=True)} → {until}", clean(row.kind) or "running",
    )  # fmt: skip
    return "  ".join(parts)
