"""What ran on each slot as lanes, the window of time that is seen of them, and both as text. Pure."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from ...engine.protocol.pages import AttemptRow
from ...engine.text import DAY_S
from ..drawing.format import clean, clock, cut_middle, duration, ranges, width_of

Tone = Literal["gap", "good", "bad", "running", "stopped", "lost", "mixed"]

_TONES: Mapping[str, Tone] = {
    "": "running", "ok": "good", "cancelled": "stopped", "pruned": "stopped", "interrupted": "stopped",
    "preempted": "stopped", "lost": "lost",
}  # fmt: skip
_NAME_CELLS = 7
"""Of a node's label."""
_SLACK_S = 0.05
"""Starts and ends are read from different clocks."""


def tone_of(row: AttemptRow) -> Tone:
    """What an attempt counts as: lasting, good, bad, stopped by somebody, or lost."""
    return _TONES.get(row.kind if row.end is not None else "", "bad")


@dataclass(slots=True)
class Lane:
    """A GPU's slot, a CPU slot, or one of a node: attempts one after the other."""

    label: str
    gpu: int | None
    """None: the CPU, or a node of a cluster."""
    rows: list[AttemptRow] = field(default_factory=list[AttemptRow])
    starts: list[float] = field(default_factory=list[float])
    ends: list[float] = field(default_factory=list[float])
    """Infinite for one that lasts."""
    busy: list[float] = field(default_factory=lambda: [0.0])
    """Seconds of the first so many attempts together; one that lasts counts as none."""
    failed: list[int] = field(default_factory=lambda: [0])
    """How many of the first so many failed or were lost."""

    def add(self, row: AttemptRow) -> None:
        """An attempt that starts after all others here."""
        start = max(row.start, self.ends[-1]) if self.ends else row.start
        end = math.inf if row.end is None else max(start, row.end)
        self.rows.append(row)
        self.starts.append(start)
        self.ends.append(end)
        self.failed.append(self.failed[-1] + (tone_of(row) in ("bad", "lost")))
        self.busy.append(self.busy[-1] + (0.0 if row.end is None else end - start))

    def at(self, wall_s: float) -> int:
        """The attempt at a time, or the nearest before it, or the first; -1 in an empty lane."""
        return max(0, bisect_right(self.starts, wall_s) - 1) if self.rows else -1

    def share(self, start: float, end: float, now_s: float) -> float | None:
        """How much of a stretch of time it was busy, up to now; None: it is all in the future."""
        end = min(end, now_s)
        if end <= start:
            return None
        first, behind = bisect_right(self.ends, start), bisect_left(self.starts, end)
        if behind <= first:
            return 0.0
        inside = self.busy[behind] - self.busy[first]
        inside -= max(0.0, start - self.starts[first]) if math.isfinite(self.ends[first]) else 0.0
        last = self.ends[behind - 1]
        if math.isinf(last):
            inside += end - max(start, self.starts[behind - 1])
        else:
            inside -= max(0.0, last - end)
        return min(1.0, max(0.0, inside / (end - start)))


def lanes_of(attempts: Iterable[AttemptRow], gpus: Sequence[int]) -> list[Lane]:
    """GPUs in order, those of *gpus* at least, then nodes by name, then the CPU. What overlaps in one place gets lanes
    of its own there."""
    found: dict[_Place, list[Lane]] = {gpu: [Lane(f"GPU {gpu}", gpu)] for gpu in sorted(gpus)}
    for row in sorted(attempts, key=lambda row: row.start):
        for place in row.nodes or row.gpus or (None,):
            slots = found.setdefault(place, [])
            lane = next((lane for lane in slots if not lane.ends or lane.ends[-1] <= row.start + _SLACK_S), None)
            if lane is None:
                lane = Lane(_label(place, len(slots)), place if isinstance(place, int) else None)
                slots.append(lane)
            lane.add(row)
    return [lane for place in sorted(found, key=_order) for lane in found[place]]


_Place = int | str | None
"""A GPU by its index, a node by its name; None: the CPU."""


def _order(place: _Place) -> tuple[int, tuple[int, str], int]:
    if place is None:
        return 2, (0, ""), 0
    return (0, (0, ""), place) if isinstance(place, int) else (1, (len(place), place), 0)


def _label(place: _Place, slot: int) -> str:
    name = _name(place)
    return name if not slot else f"{name[:3] if place is None else ''} ·{slot + 1}".rjust(len(name))


def _name(place: _Place) -> str:
    if isinstance(place, str):
        return cut_middle(clean(place), _NAME_CELLS)
    return "CPU" if place is None else f"GPU {place}"


_SHORTEST_S, _LONGEST_S = 5.0, 5.0 * 365 * DAY_S
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    *(days * DAY_S for days in (1, 2, 7, 14, 28, 56, 168, 364)),
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
    if step >= DAY_S:
        return time.strftime("╵%d %b", then) if step < 84 * DAY_S else time.strftime("╵%b %Y", then)
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
