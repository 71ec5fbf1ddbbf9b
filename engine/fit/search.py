"""Which value to try next, when larger ones need more memory: doubling until one is too large, then bisection. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Search:
    """What is known so far of ascending *values*."""

    values: Sequence[int]
    fits: int = -1
    """Place of the largest that fits; -1: none yet."""
    too_large: int | None = None
    """Place of the smallest that does not fit; None: none yet."""

    @property
    def best(self) -> int | None:
        return self.values[self.fits] if self.fits >= 0 else None

    @property
    def exhausted(self) -> bool:
        """The largest value of all fits: larger ones may, too."""
        return self.fits == len(self.values) - 1

    def next(self) -> int | None:
        """The value to try; None: it is known."""
        if self.exhausted:
            return None
        if self.too_large is None:
            return self.values[self._doubled()]
        return self.values[(self.fits + self.too_large) // 2] if self.too_large - self.fits > 1 else None

    def told(self, value: int, *, fits: bool) -> Search:
        """After the trial of what `next` gave."""
        place = bisect_right(self.values, value) - 1
        return replace(self, fits=place) if fits else replace(self, too_large=place)

    def _doubled(self) -> int:
        """The largest that is at most twice the best, but one further at least."""
        if self.fits < 0:
            return 0
        return max(self.fits + 1, bisect_right(self.values, 2 * self.values[self.fits]) - 1)


def grid(low: int, high: int, step: int | None) -> Sequence[int]:
    """The values to choose from. Without a *step*: powers of two between two such, else every whole number."""
    if step is None and low > 0 and low & (low - 1) == 0 and high & (high - 1) == 0:
        return tuple(1 << power for power in range(low.bit_length() - 1, high.bit_length()))
    return range(low, high + 1, step or 1)
