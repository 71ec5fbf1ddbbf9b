"""When a task will be over, from how fast its share of work done grew of late. Pure."""

from __future__ import annotations

from collections import deque

from .marks import Rank

_SAMPLES = 64
_APART_S = 1.0
_WINDOW_S = 60.0
_MAX_ETA_S = 10 * 365 * 86400.0
_SETTLED_S: dict[Rank, float] = {Rank.STEP: 20.0, Rank.ASIDE: 60.0}
"""For how long a bar must have been followed before an end is read from it: it may be one of many."""
_SETTLED_ELSE_S = 3.0


class Pace:
    """When a share will be 1, from how fast it grew of late: in the last quarter of the time, and at least a minute."""

    def __init__(self) -> None:
        self._first_at = 0.0
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)

    def add(self, at: float, share: float) -> None:
        """*at*: seconds of a clock that only goes forward."""
        samples = self._samples
        if not samples:
            self._first_at = at
        elif share <= samples[-1][1] or at <= samples[-1][0]:
            return
        # So far apart the samples that are kept reach back over more than the window.
        apart_s = max(_APART_S, (at - self._first_at) / (2 * _SAMPLES))
        if len(samples) > 1 and samples[-1][0] - samples[-2][0] < apart_s:
            samples.pop()
        samples.append((at, share))

    def end(self, now: float, rank: Rank) -> float | None:
        """The time of the end on the same clock; None: too little is known."""
        samples = self._samples
        if len(samples) < 2:
            return None
        last_at, last = samples[-1]
        if last_at - self._first_at < _SETTLED_S.get(rank, _SETTLED_ELSE_S):
            return None
        begin_at, begin, steps = self._window(now)
        usual_s = (last_at - begin_at) / steps
        until = last_at if now - last_at <= 2 * usual_s else now
        left_s = (1.0 - last) * (until - begin_at) / (last - begin)
        return max(now, until + left_s) if left_s <= _MAX_ETA_S else None

    def _window(self, now: float) -> tuple[float, float, int]:
        """Where the recent past begins, and how many steps it has."""
        samples = self._samples
        long_s = max(_WINDOW_S, (now - self._first_at) / 4)
        steps = min(2, len(samples) - 1)
        while steps < len(samples) - 1 and samples[-1][0] - samples[-1 - steps][0] < long_s:
            steps += 1
        return (*samples[-1 - steps], steps)
