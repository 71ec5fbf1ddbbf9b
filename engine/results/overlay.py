"""Curves of several tasks over each other: on one axis, smoothed, mean and band over seeds. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from ..logs.curves import Curve, Point
from ..text import duration
from .settings import one_spelling

REPEATS = ("seed", "fold", "repeat", "rep", "trial")
"""Params that are averaged over."""
TIME = "time"
"""The axis of seconds from an attempt's start."""
GRID = 256
"""Places at which means are taken."""

Points = Sequence[Point]


@dataclass(frozen=True, slots=True)
class Member:
    """A task, and what its newest attempt reported."""

    task: str
    entry: str
    params: Mapping[str, str]
    curves: Mapping[str, Curve]
    """By metric."""
    ended: bool = False
    """It writes nothing more."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line of a picture: a task's curve, or the mean over several."""

    label: str
    tasks: tuple[str, ...]
    points: Points
    band: tuple[Points, Points] | None = None
    """A standard deviation below and above the mean."""
    axis: str = ""
    """Of one without points: what its x counts instead; "": it has no values."""

    def all_points(self) -> Points:
        """With those of its band."""
        return [point for points in (self.points, *(self.band or ())) for point in points]


def x_text(axis: str, x: float) -> str:
    """Values are counted from 1, as people do."""
    if axis == TIME:
        return duration(x)
    x = x + 1 if axis == "value" else x
    return f"{x:,.0f}" if x == int(x) else f"{x:,.2f}"


def axes_of(members: Sequence[Member], metric: str) -> list[str]:
    """What the curves of a metric can be drawn over, by how many have it."""
    curves = [member.curves[metric] for member in members if metric in member.curves]
    counts = {x: sum(curve.x == x for curve in curves) for x in dict.fromkeys(curve.x for curve in curves)}
    return [*sorted(counts, key=lambda x: -counts[x]), *([TIME] if any(curve.at_s for curve in curves) else [])]


def along(curve: Curve, axis: str) -> Points:
    """Its points over an axis; none where it does not count that."""
    if axis == TIME:
        return [(at_s, value) for at_s, (_, value) in zip(curve.at_s, curve.points, strict=False)]
    return curve.points if curve.x == axis else ()


def smoothed(points: Points, weight: float) -> Points:
    """The exponential mean of what came before, where *weight* (0 to 1) is the share that stays at each point. What is
    no number stays as it is, and changes nothing behind it."""
    if not weight:
        return points
    found: list[Point] = []
    mean, share = 0.0, 0.0
    for x, value in points:
        if not math.isfinite(value):
            found.append((x, value))
            continue
        mean, share = mean * weight + value * (1 - weight), share * weight + 1 - weight
        found.append((x, mean / share))
    return found


def value_at(points: Points, x: float) -> float | None:
    """On the straight line between the points around *x*; None: it begins later, or has ended."""
    at = bisect_left(points, x, key=lambda point: point[0])
    if at < len(points) and points[at][0] == x:
        while at + 1 < len(points) and points[at + 1][0] == x:  # the newest counts
            at += 1
        return points[at][1]
    if not 0 < at < len(points):
        return None
    (left, low), (right, high) = points[at - 1], points[at]
    share = (x - left) / (right - left)
    return low * (1 - share) + high * share


def mean_of(members: Sequence[Points]) -> tuple[Points, tuple[Points, Points] | None]:
    """The mean at each x of those that have a value there, and a standard deviation (n - 1) below and above it; no band
    where nowhere two have one."""
    xs = sorted({x for points in members for x, _ in points if math.isfinite(x)})
    if len(xs) > GRID:
        xs = [xs[round(at * (len(xs) - 1) / (GRID - 1))] for at in range(GRID)]
    middle, low, high = list[Point](), list[Point](), list[Point]()
    several = False
    for x in xs:
        told = [value_at(points, x) for points in members]
        values = [value for value in told if value is not None and math.isfinite(value)]
        if not values:
            if any(value is not None for value in told):
                for line in (middle, low, high):
                    line.append((x, math.nan))
            continue
        mean = fmean(values)
        spread = stdev(values) if len(values) > 1 else 0.0
        several = several or len(values) > 1
        middle.append((x, mean))
        low.append((x, mean - spread))
        high.append((x, mean + spread))
    return middle, (low, high) if several else None


def grouped(members: Sequence[Member]) -> list[tuple[str, list[Member]]]:
    """Tasks that differ in a seed alone, under what tells them from the others: no two are called alike."""
    groups: dict[tuple[str, ...], list[Member]] = {}
    for member, given in zip(members, one_spelling(member.params for member in members), strict=True):
        params = [f"{name}={value}" for name, value in given.items() if name not in REPEATS]
        one = () if len(params) < len(given) else (member.task,)  # without a seed it is alone
        groups.setdefault((member.entry, *params, *one), []).append(member)
    common = set[str].intersection(*map(set, groups)) if len(groups) > 1 else set[str]()
    found: list[tuple[str, list[Member]]] = []
    for key, mine in groups.items():
        own = " ".join(part for part in key[1:] if part not in common) if mine[0].task not in key else mine[0].task
        found.append((own or mine[0].entry, mine))
    named = Counter(label for label, _ in found)
    return [(label if named[label] == 1 else f"{mine[0].entry} {label}", mine) for label, mine in found]


def drawn(members: Sequence[Member], metric: str, axis: str, *, groups: bool, weight: float = 0.0) -> list[Drawn]:
    """A line for each task, or for each group of them."""
    found: list[Drawn] = []
    for label, mine in grouped(members) if groups else [(member.task, [member]) for member in members]:
        curves = [member.curves[metric] for member in mine if metric in member.curves]
        lines = [smoothed(points, weight) for curve in curves if (points := along(curve, axis))]
        points, band = mean_of(lines) if len(lines) > 1 else (lines[0] if lines else (), None)
        tasks = tuple(member.task for member in mine)
        found.append(Drawn(label, tasks, points, band, "" if lines or not curves else curves[0].x))
    return found
