"""The stretch of time that a timeline shows, and the axis above it. Pure; knows no widget."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..drawing.format import duration
from .lanes import Lane

_SHORTEST_S, _LONGEST_S = 5.0, 5 * 365 * 86400.0
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 2 * 86400, 7 * 86400,
    14 * 86400, 28 * 86400, 56 * 86400, 168 * 86400, 364 * 86400,
)  # fmt: skip
_TICK_CELLS = 12
"""At least so many cells from one time of the axis to the next."""


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time that is shown."""

    start: float
    """Seconds since the epoch."""
    span_s: float

    @property
    def end(self) -> float:
        return self.start + self.span_s

    def zoomed(self, factor: float, around: float) -> Window:
        """*factor* below 1: closer. What is at *around* stays where it is."""
        span = min(max(self.span_s * factor, _SHORTEST_S), _LONGEST_S)
        share = (around - self.start) / self.span_s
        return Window(around - share * span, span)

    def panned(self, share: float) -> Window:
        """By a share of its width; negative: back in time."""
        return replace(self, start=self.start + share * self.span_s)

    def showing(self, start: float, end: float) -> Window:
        """Panned no further than needed to have this stretch in it, its beginning at least."""
        margin = self.span_s * 0.05
        if start < self.start:
            return replace(self, start=start - margin)
        if end > self.end:
            return replace(self, start=min(start - margin, end + margin - self.span_s))
        return self


def whole(lanes: Sequence[Lane], now_s: float) -> Window:
    """From the first start until now, or until the last end."""
    starts = [lane.starts[0] for lane in lanes if lane.starts]
    if not starts:
        return Window(now_s - 3600.0, 3600.0)
    lasts = [now_s if math.isinf(lane.ends[-1]) else lane.ends[-1] for lane in lanes if lane.ends]
    first, last = min(starts), max(lasts)
    span = max(_SHORTEST_S, (last - first) * 1.02)
    return Window(first - span * 0.01, span)


def scale_text(window: Window, width: int) -> str:
    """How much time a cell is."""
    each = window.span_s / max(1, width)
    return f"{each:.1f}s" if each < 10 else duration(each)


def axis(window: Window, width: int) -> str:
    """Local times above the cells that they begin in."""
    line = [" "] * width
    step = _step_s(window.span_s / max(1, width) * _TICK_CELLS)
    shift = time.localtime(window.start).tm_gmtoff
    tick = math.ceil((window.start + shift) / step) * step - shift
    while tick < window.end:
        at = int((tick - window.start) / window.span_s * width)
        text = _tick_text(tick, step)
        if at + len(text) <= width:
            line[at : at + len(text)] = text
        tick += step
    return "".join(line)


def _step_s(least: float) -> float:
    return next((step for step in _STEPS_S if step >= least), math.ceil(least / _STEPS_S[-1]) * _STEPS_S[-1])


def _tick_text(wall_s: float, step: float) -> str:
    then = time.localtime(wall_s)
    if step >= 86400:
        return time.strftime("╵%d %b", then) if step < 84 * 86400 else time.strftime("╵%b %Y", then)
    if step >= 60:
        midnight = then.tm_hour == then.tm_min == 0
        return time.strftime("╵%a %d" if midnight else "╵%H:%M", then)
    return time.strftime("╵%H:%M:%S", then)
