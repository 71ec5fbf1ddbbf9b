"""Points of a run, as shares of its progress, and what a metric has come to when it passes them (`prune`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .metrics import Values


class Points:
    """Those of one attempt. A point that is passed together with a later one is left out: what the metric was there
    nobody knows."""

    def __init__(self, metric: str, name: str, by: str, at: Sequence[float]) -> None:
        """*metric*: "val_loss:min", *name* and *by* its parts. *at*: rising, each between 0 and 1."""
        self._metric = metric
        self.name = name
        self.by = by
        self._ahead = list(at)

    def passed(self, share: float, values: Values) -> list[tuple[str, float, float | None]]:
        """The metric, the point and the best value until there, None where the last is not a number: one at most. At
        the end of a run nothing is told any more."""
        if not self._ahead or share < self._ahead[0] or share >= 1 or values.last is None:
            return []
        point = max(each for each in self._ahead if each <= share)
        self._ahead = [each for each in self._ahead if each > share]
        return [(self._metric, point, None if math.isnan(values.last) else values.best)]
