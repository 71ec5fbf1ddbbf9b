"""What of the lanes is looked at: a stretch of time, and the attempt under the cursor. Pure; knows no widget."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...engine.protocol.pages import AttemptRow
from .lanes import Lane
from .window import Window, whole

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
