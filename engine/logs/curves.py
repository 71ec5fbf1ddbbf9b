"""What metrics have been over steps, epochs and time: points out of lines of logs, thinned where there are many, and
attempt-N.curves.json, which keeps them whatever becomes of the logs."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from .marks import Rank, marks_in, number_of, said_in
from .signs import tells_an_error

MOST_CURVES = 32
KEPT = 254
"""Spans of one curve; each has its least and its greatest value. With the first and the last value these are 510
points."""
SPARKS = 16
"""Points of a small picture of a curve."""

Point = tuple[float, float]
Find = Callable[[str], list[float]]
Place = tuple[str, float | None]
"""What is counted, and where a line stands: ("step", 120.0)."""
_Spot = tuple[float, float, float | None]
"""x, value, seconds from the attempt's start; None: nobody knows."""

_SAID_STEPS = ("step", "global_step", "iter", "iteration", "epoch", "batch")
"""Numbers of `::gpudeck` lines that say where a value belongs, the finest first."""
_SAID_PROGRESS = re.compile(r"\bprogress=(\d+(?:\.\d+)?)/")
_WORDS = (  # what ends with another one is found by it, and is the longer name
    "loss", "acc", "accuracy", "lr", "learning_rate", "grad_norm", "ppl", "perplexity", "reward", "f1", "auc",
    "map", "miou", "iou", "bleu", "rouge", "psnr", "ssim", "fid", "mse", "mae", "rmse", "error", "top1", "top5",
)  # fmt: skip
_HIGHER_IS_BETTER = (
    "acc", "reward", "f1", "auc", "map", "iou", "bleu", "rouge", "psnr", "ssim", "top1", "top5", "score", "precision",
    "recall", "return",
)  # fmt: skip
_JUDGES_NOTHING = ("lr", "learning_rate", "grad_norm", "step", "iter", "iteration", "epoch", "batch", "eta", "time")
_COUNTED = ("poch", "step", "iter", "batch", "%|", "[=", "━", "progress")
"""A line without any of these has no counter."""
_ALONE = re.compile(r"(?<![a-z_])(?:global[_ ])?(step|iter|iteration)[\s:=#]{0,4}(\d{1,15})(?!\d|\s{0,2}/)")
_BEFORE = re.compile(r"(?:^|[^A-Za-z0-9_./-])((?:[A-Za-z][A-Za-z0-9]{0,20}[_ /.-]){0,2})$")
_NUMBER = r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:e[+-]?\d{1,3})?|nan|inf"
_VALUE = re.compile(rf"['\"]?\s{{0,2}}(?:[:=]\s{{0,4}}['\"]?({_NUMBER})|\s({_NUMBER}))(?![\w/])")
"""Behind a name. After a blank alone a whole number is prose: "error 404"."""
_LINE_CHARS = 1000
_FRAME = re.compile(r'.{0,40} File "')
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
    at_s: tuple[float, ...] = ()
    """When each point was, in seconds from the attempt's start, with those of the attempts that it goes on from; empty:
    its log does not tell."""

    def sparks(self) -> list[float]:
        """A few of its values, from the first to the last."""
        values = [value for _, value in self.points if math.isfinite(value)]
        few = min(SPARKS, len(values))
        return [values[round(at * (len(values) - 1) / max(1, few - 1))] for at in range(few)]


class _Track:
    """One metric while its points come in."""

    def __init__(self) -> None:
        self._spans: list[tuple[_Spot, _Spot]] = []
        """The least and the greatest of every few values, in order."""
        self._per_span = 1
        self._full = 0
        """Values in the last span."""
        self._first: _Spot = (0.0, math.nan, None)
        self._last: _Spot = (0.0, math.nan, None)
        self.x = ""
        self.counted = False
        """Its x is the number of the value, because what the lines say goes back or changes."""
        self.count = 0
        self.low: Point | None = None
        self.high: Point | None = None

    @classmethod
    def of(cls, curve: Curve) -> _Track:
        """As it was when *curve* was made of it: all of its points stay."""
        track = cls()
        times = curve.at_s or (None,) * len(curve.points)
        spots = [(x, value, at_s) for (x, value), at_s in zip(curve.points, times, strict=True)]
        for at in range(0, len(spots), 2):
            pair = spots[at : at + 2]
            finite = len(pair) == 2 and all(math.isfinite(spot[1]) for spot in pair)
            low_first = sorted(pair, key=lambda spot: spot[1])
            track._spans += [(low_first[0], low_first[1])] if finite else [(spot, spot) for spot in pair]
        while len(track._spans) > KEPT:
            track._halve()
        track._per_span = track._full = max(1, curve.count // max(1, len(track._spans)))
        track._first, track._last = spots[0], spots[-1]
        track.x, track.counted, track.count = curve.x, curve.x == "value", curve.count
        track.low, track.high = curve.low, curve.high
        return track

    @property
    def last(self) -> float:
        return self._last[1]

    def until(self, x: float) -> _Track:
        """As it was before *x*."""
        curve = self.curve("")
        count = bisect_left(curve.points, x, key=lambda point: point[0])
        points = curve.points[:count]
        if not points:
            return _Track()
        finite = [point for point in points if math.isfinite(point[1])]
        low = min(finite, key=lambda point: point[1], default=None)
        high = max(finite, key=lambda point: point[1], default=None)
        values = max(count, curve.count * count // len(curve.points))
        return _Track.of(Curve("", curve.x, points, values, points[-1][1], low, high, curve.at_s[:count]))

    def add(self, place: Place, value: float, at_s: float | None) -> None:
        x, at = place
        if not self.count:
            self.x, self.counted = x, at is None
        if not self.counted and (at is None or x != self.x or (self.count and at < self._last[0])):
            self._count_them()
        spot = (float(self.count) if self.counted or at is None else at, value, at_s)
        self._first = spot if not self.count else self._first
        self.count += 1
        self._last = spot
        self._bounds(spot)
        if self._spans and self._full < self._per_span:
            self._spans[-1] = _joined(self._spans[-1], (spot, spot))
            self._full += 1
            return
        if len(self._spans) >= KEPT:
            self._halve()
            self._per_span *= 2
        self._spans.append((spot, spot))
        self._full = 1

    def _halve(self) -> None:
        pairs = [self._spans[at : at + 2] for at in range(0, len(self._spans), 2)]
        self._spans = [_joined(pair[0], pair[-1]) for pair in pairs]

    def _count_them(self) -> None:
        """Number the values that there are already."""
        self.counted, self.x = True, "value"
        spans, self.low, self.high = self._spans, None, None
        self._spans = []
        for place, (low, high) in enumerate(spans):
            first = float(place * self.count // len(spans))
            self._spans.append(((first, *low[1:]), (first, *high[1:])))
            self._bounds(self._spans[-1][0])
            self._bounds(self._spans[-1][1])
        self._first = (0.0, *self._first[1:])

    def _bounds(self, spot: _Spot) -> None:
        if math.isfinite(spot[1]):
            self.low = spot[:2] if self.low is None or spot[1] < self.low[1] else self.low
            self.high = spot[:2] if self.high is None or spot[1] > self.high[1] else self.high

    def curve(self, name: str) -> Curve:
        spots: list[_Spot] = []
        for low, high in self._spans:
            spots += (low,) if low == high else sorted((low, high), key=lambda spot: (spot[0], spot[2] or 0.0))
        if spots[0] != self._first:
            spots.insert(0, self._first)
        if spots[-1] != self._last:
            spots.append(self._last)
        times = tuple(at_s for _, _, at_s in spots if at_s is not None)
        points = tuple((x, value) for x, value, _ in spots)
        timed = times if len(times) == len(points) else ()
        return Curve(name, self.x, points, self.count, self._last[1], self.low, self.high, timed)


def _joined(first: tuple[_Spot, _Spot], second: tuple[_Spot, _Spot]) -> tuple[_Spot, _Spot]:
    """Two spans as one. What is no number counts only where there is nothing else."""
    finite = [spot for spot in (*first, *second) if math.isfinite(spot[1])]
    if not finite:
        return first
    return min(finite, key=lambda spot: spot[1]), max(finite, key=lambda spot: spot[1])


class Curves:
    """Feed it lines. Metrics that a task has patterns for, and those on `::gpudeck` lines; without either, numbers
    behind words that are usual in training."""

    def __init__(
        self,
        finders: Mapping[str, Find] | None = None,
        *,
        named: bool = False,
        known: Sequence[Curve] = (),
        since_s: float | None = None,
    ) -> None:
        """*finders*: by a metric's name. *named*: the task says itself what its metrics are: nothing is guessed.
        *known*: as they have been so far. *since_s*: what is known until then was told by attempts from which this one
        goes on: what it does again is told by it."""
        self._finders = dict(finders or {})
        self._own = named or bool(finders)
        self._tracks: dict[str, _Track] = {curve.name: _Track.of(curve) for curve in known}
        since_s = -1.0 if since_s is None else since_s
        self._inherited = {curve.name for curve in known if max(curve.at_s, default=0.0) <= since_s}
        """Of which this attempt has told nothing yet."""
        self.taken = 0
        """Values that came in."""
        self._guessed: set[str] = set()
        self._before = ""
        self._epoch: float | None = None
        self._at: Place = ("value", None)
        """What is counted, and where the last line with a counter was."""

    def feed(self, line: str) -> None:
        """Take in a line or a frame of a bar, without control characters."""
        ours = "::gpudeck " in line
        place, said = (self.feed_said(line), said_in(line)[1]) if ours else (self.place(line), {})
        for name, find in self._finders.items():
            for value in () if name in said else find(line):
                self.add(name, value, place)
        if not ours and not self._own:
            for name, value in guesses(line, self._before):
                self._guessed.add(name)
                self.add(name, value, place)
        self._before = line

    def forget(self) -> None:
        """Patterns are of no use: one of them never ends."""
        self._finders.clear()

    def told(self, name: str, values: Sequence[float], at_s: float | None = None) -> None:
        """What a file tells of a metric: all that it has been, or the newest value alone."""
        track = self._tracks.get(name)
        known = track.count if track is not None else 0
        if len(values) > 1 and known:
            goes_on = track is not None and len(values) >= known and _same(values[known - 1], track.last)
            values = values[known:] if goes_on else values
            if not goes_on:
                del self._tracks[name]
        for value in values:
            self.add(name, value, ("value", None), at_s)

    def add(self, name: str, value: float, place: Place, at_s: float | None = None) -> None:
        self.taken += 1
        track = self._tracks.get(name)
        if track is not None and name in self._inherited:
            track = _gone_on(track, place)
        elif track is None and len(self._tracks) < MOST_CURVES:
            track = _Track()
        if track is not None:
            track.add(place, value, at_s)
            self._tracks[name] = track
            self._inherited.discard(name)

    def curve(self, name: str) -> Curve | None:
        track = self._tracks.get(name)
        return None if track is None else track.curve(name)

    def curves(self) -> tuple[Curve, ...]:
        """As far as they have come, in the order in which they began."""
        return tuple(track.curve(name) for name, track in self._tracks.items())

    def feed_said(self, line: str, at_s: float | None = None) -> Place:
        """Take in a `::gpudeck` line. Where its values belong."""
        _, values = said_in(line)
        if values and not self._own:
            self._own = True
            for name in self._guessed:
                self._tracks.pop(name, None)
        counter, progress = next((name for name in _SAID_STEPS if name in values), ""), _SAID_PROGRESS.search(line)
        place = self.place(line)
        if counter:
            place = (counter.rpartition("_")[2], values[counter])
        elif progress:
            place = ("progress", float(progress[1]))
            if self._at[0] in ("value", "progress"):
                self._at = place
        for name, value in values.items():
            if name != counter:
                self.add(name, value, place, at_s)
        return place

    def place(self, line: str) -> Place:
        """Where what a line says belongs: by its own counter, else by the last one before it."""
        if not _counts(line):
            return self._at
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
        return self._at


def _gone_on(track: _Track, place: Place) -> _Track | None:
    """What attempts have told before the first value of one that goes on from them. None: nobody knows where that
    belongs; a script may tell what its checkpoint has come to."""
    x, at = place
    if track.counted:
        return track
    if at is None:
        return None
    return track.until(at) if x == track.x else _Track()


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _counts(line: str) -> bool:
    text = line.lower()
    return any(sign in text for sign in _COUNTED)


def guesses(line: str, previous: str = "") -> list[tuple[str, float]]:
    """Names that are usual in training with the number behind each: `train loss: 0.31`, `'loss': 0.5`, `acc=0.9`.
    A line that tells an error has none, nor has code that a traceback quotes. *previous*: the line before it."""
    if _FRAME.match(previous):
        return []
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
    if found and ("error" in text or "exception" in text) and tells_an_error(line):
        return []
    return [found[end] for end in sorted(found)]


def line_that_keeps(name: str) -> str:
    """Of the task file, for a metric that is guessed."""
    words = name.replace("_", "[ _-]")
    return f"metrics.{name} = {{ regex = '(?i){words}[ =:]+(\\S+)' }}"


def likely_best(name: str) -> Literal["max", "min"]:
    """Which of a metric's values is the best, by its name: a guess."""
    text = name.lower()
    lower = any(word in text for word in ("loss", "err", "mape"))
    return "max" if not lower and any(word in text for word in _HIGHER_IS_BETTER) else "min"


def telling_most(names: Iterable[str]) -> str:
    """The metric by which tasks are most likely compared: one of validation before others; "" where none judges."""
    judging = [name for name in names if not name.lower().endswith(_JUDGES_NOTHING)]
    of_validation = [name for name in judging if re.search("val|dev|test", name.lower())]
    return next(iter([*of_validation, *judging]), "")


def to_wire(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """For JSON; what is no number is written as text."""
    return [
        {
            "name": curve.name, "x": curve.x, "count": curve.count, "last": _text(curve.last),
            "points": [(x, _text(y)) for x, y in curve.points], "low": curve.low, "high": curve.high,
            "at_s": [round(at_s, 1) for at_s in curve.at_s],
        }
        for curve in curves
    ]  # fmt: skip


def from_wire(said: Sequence[Mapping[str, Any]]) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            each["name"], each["x"], tuple((float(x), float(y)) for x, y in each["points"]), each["count"],
            float(each["last"]), _pair(each["low"]), _pair(each["high"]), tuple(map(float, each["at_s"])),
        )
        for each in said
    )  # fmt: skip


def _text(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _pair(point: Sequence[float] | None) -> Point | None:
    return None if point is None else (float(point[0]), float(point[1]))


Read = dict[str, tuple[int, int]]
"""How far each log was read, by its path: which file it was (its inode), and bytes."""


@dataclass(frozen=True, slots=True)
class KeptCurves:
    """What attempt-N.curves.json has."""

    curves: tuple[Curve, ...] = ()
    token: str = ""
    """Of the attempt."""
    read: Read | None = None
    since_s: float | None = None
    """Until then they are of attempts from which it went on; None: it began anew."""

    @property
    def lasted_s(self) -> float:
        """When the last value came."""
        return max((curve.at_s[-1] for curve in self.curves if curve.at_s), default=0.0)


def encode_kept(kept: KeptCurves) -> bytes:
    said = {
        "token": kept.token, "read": kept.read or {}, "since_s": kept.since_s, "curves": to_wire(kept.curves),
    }  # fmt: skip
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def read_kept(path: str) -> KeptCurves:
    """Nothing where it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            said = cast("dict[str, Any]", json.loads(file.read()))
        read = {str(log): (int(inode), int(offset)) for log, (inode, offset) in said["read"].items()}
        since_s = None if said.get("since_s") is None else float(said["since_s"])
        return KeptCurves(from_wire(said["curves"]), str(said["token"]), read, since_s)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return KeptCurves()
