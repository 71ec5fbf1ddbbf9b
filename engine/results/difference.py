"""By how much the means of two samples differ, how sure that is, and how many more values would tell. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev, variance

CONFIDENCE = 0.95
MOST_MORE = 1000
"""More values than that are not told in numbers."""
_PANELS = 128
_BISECTIONS = 48


@dataclass(frozen=True, slots=True)
class Difference:
    """The second less the first."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    paired: bool

    @property
    def mean(self) -> float:
        return fmean(self.second) - fmean(self.first)

    @property
    def interval(self) -> tuple[float, float] | None:
        """In which the true difference lies with a probability of 95 %, if values are about normally distributed:
        Student's for pairs, else Welch's. None: too few values, or some that are not finite."""
        if (found := self._error()) is None:
            return None
        error, freedom = found
        half = error * student_quantile(CONFIDENCE, freedom) if error else 0.0
        return self.mean - half, self.mean + half

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 0 out. False also where there is none."""
        found = self._error()
        return found is not None and _is_apart(self.mean, *found)

    @property
    def more(self) -> int | None:
        """How many more of each would decide, if difference and deviations stay as they are; None: none, or nobody
        knows, or more than `MOST_MORE`."""
        if self.differs or not self.mean or self._error() is None:
            return None
        now = min(len(self.first), len(self.second))

        def decides(each: int) -> bool:
            return _is_apart(self.mean, *self._error_with(each))

        few, enough = now, now + 1
        while not decides(enough):
            few, enough = enough, enough * 2
            if enough - now > 2 * MOST_MORE:
                return None
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if decides(middle) else (middle, enough)
        return enough - now if enough - now <= MOST_MORE else None

    def _error(self) -> tuple[float, float] | None:
        """The standard error of the difference, and its degrees of freedom."""
        first, second = self.first, self.second
        if min(len(first), len(second)) < 2 or not all(map(math.isfinite, (*first, *second))):
            return None
        if self.paired:
            return self._error_with(len(first))
        of_first, of_second = variance(first) / len(first), variance(second) / len(second)
        if not of_first + of_second:
            return 0.0, 1.0
        split = of_first**2 / (len(first) - 1) + of_second**2 / (len(second) - 1)
        return math.sqrt(of_first + of_second), (of_first + of_second) ** 2 / split

    def _error_with(self, each: int) -> tuple[float, float]:
        """The same, had each side so many values of the deviations that they have."""
        if self.paired:
            apart = stdev(b - a for a, b in zip(self.first, self.second, strict=True))
            return apart / math.sqrt(each), each - 1.0
        one, other = variance(self.first), variance(self.second)
        if not one + other:
            return 0.0, 1.0
        freedom = (each - 1) * (one + other) ** 2 / (one**2 + other**2)
        return math.sqrt((one + other) / each), freedom


def _is_apart(difference: float, error: float, freedom: float) -> bool:
    """Whether 0 lies outside the interval around *difference*."""
    if not error:
        return difference != 0
    return student_share(abs(difference) / error, freedom) > CONFIDENCE


def student_share(t: float, freedom: float) -> float:
    """The share of Student's distribution that lies within *t* of 0.

    With t = sqrt(freedom) tan(angle) it is an integral of cos(angle) ** (freedom - 1), which Simpson's rule gives.
    """
    scale = 2 * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(math.pi))
    step = math.atan(t / math.sqrt(freedom)) / _PANELS
    heights = [math.cos(number * step) ** (freedom - 1) for number in range(_PANELS + 1)]
    return scale * step / 3 * (heights[0] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]) + heights[-1])


def student_quantile(confidence: float, freedom: float) -> float:
    """The t within whose distance from 0 Student's distribution has the share *confidence*."""
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = student_share(math.sqrt(freedom) * math.tan(middle), freedom) > confidence
        low, high = (low, middle) if enough else (middle, high)
    return math.sqrt(freedom) * math.tan((low + high) / 2)
