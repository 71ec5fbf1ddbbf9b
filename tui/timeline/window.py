"""What of the lanes is looked at: a stretch of time with its axis, and the attempt under the cursor. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...engine.protocol.pages import AttemptRow
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


_ZOOM = 0.5
_MARGIN = 0.02
"""Share of the window behind the present while it follows."""


class Sight:
    """At first everything is shown, whatever comes. *now_s* everywhere: seconds since the epoch."""

    def __init__(self, now_s: float) -> None:
        self.lanes: Sequence[Lane] = ()
        self.window: Window = whole((), now_s)
        self.lane_number = 0
        """Of the lane under the cursor."""
        self.place = -1
        """Of the attempt under the cursor in its lane; -1: the lane is empty."""
        self._all = True
        self._follows = False

    @property
    def lane(self) -> Lane | None:
        return self.lanes[self.lane_number] if self.lane_number < len(self.lanes) else None

    @property
    def attempt(self) -> AttemptRow | None:
        lane = self.lane
        return lane.rows[self.place] if lane is not None and 0 <= self.place < len(lane.rows) else None

    @property
    def moves(self) -> bool:
        """Whether what is seen changes with time alone."""
        return self._follows or any(lane.ends and math.isinf(lane.ends[-1]) for lane in self.lanes)

    # -- changes ------------------------------------------------------------------------------------------------------

    def show(self, lanes: Sequence[Lane], now_s: float) -> None:
        """Take other lanes; the cursor stays on its attempt."""
        lane, attempt = self.lane, self.attempt
        self.lanes = lanes
        if lane is None or attempt is None or not self._find(lane.label, attempt):
            self._to_newest()
        self.pass_time(now_s)

    def _find(self, label: str, attempt: AttemptRow) -> bool:
        """In the lane of this label; where the attempt is not there, on the newest of it. False: no such lane."""
        number = next((number for number, lane in enumerate(self.lanes) if lane.label == label), None)
        if number is None:
            return False
        rows = self.lanes[number].rows
        same = (
            place
            for place in range(len(rows) - 1, -1, -1)
            if (rows[place].task, rows[place].attempt) == (attempt.task, attempt.attempt)
        )
        self.lane_number, self.place = number, next(same, len(rows) - 1)
        return True

    def _to_newest(self) -> None:
        """The attempt that started last."""
        ran = [number for number, lane in enumerate(self.lanes) if lane.rows]
        self.lane_number = max(ran, key=lambda number: self.lanes[number].starts[-1], default=0)
        lane = self.lane
        self.place = -1 if lane is None else len(lane.rows) - 1

    def pass_time(self, now_s: float) -> None:
        if self._all:
            self.window = whole(self.lanes, now_s)
        elif self._follows:
            span_s = self.window.span_s
            self.window = Window(now_s + span_s * _MARGIN - span_s, span_s)

    # -- moves --------------------------------------------------------------------------------------------------------

    def move_lane(self, step: int) -> None:
        """To the lane before or behind, to what is there at the time that is looked at."""
        if self.lanes:
            self.point(min(max(self.lane_number + step, 0), len(self.lanes) - 1), self._around())

    def point(self, lane_number: int, wall_s: float) -> None:
        """To the attempt of a lane that there is, at a time or next to it."""
        self.lane_number, self.place = lane_number, self.lanes[lane_number].at(wall_s)

    def move_attempt(self, step: int, now_s: float) -> None:
        """To the attempt before or behind on the same lane."""
        lane = self.lane
        if lane is None or not lane.rows:
            return
        self.place = min(max(self.place + step, 0), len(lane.rows) - 1)
        end = min(lane.ends[self.place], now_s)
        self.look(self.window.showing(lane.starts[self.place], end), now_s)

    def zoom(self, step: int, now_s: float) -> None:
        """Closer with 1, wider with -1, around the cursor."""
        self.look(self.window.zoomed(_ZOOM if step > 0 else 1 / _ZOOM, self._around()), now_s)

    def look(self, window: Window, now_s: float) -> None:
        """At this stretch of time; one that the present has been followed in, and is still in, goes on following it."""
        self._follows = (self._follows or self._all) and window.start < now_s <= window.end
        self._all = False
        self.window = window

    def show_all(self, now_s: float) -> None:
        self._all, self._follows = True, False
        self.pass_time(now_s)

    def follow(self, now_s: float) -> None:
        """The present, with the width that it has."""
        self._all, self._follows = False, True
        self._to_newest()
        self.pass_time(now_s)

    def _around(self) -> float:
        """The time under the cursor, as far as it is in view; else the middle."""
        lane, window = self.lane, self.window
        if lane is not None and 0 <= self.place < len(lane.rows):
            start = max(window.start, lane.starts[self.place])
            end = min(window.end, lane.ends[self.place])
            if start < end:
                return (start + end) / 2
        return window.start + window.span_s / 2
