"""What attempts that are over reported last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..core.spec import TaskSpec
from ..logs.record import last_scores


class Reported(NamedTuple):
    """The metrics of an attempt."""

    last: Mapping[str, float] = {}
    best: Mapping[str, float] = {}
    curve: Sequence[float] = ()
    """Of the first one."""


def best_of(spec: TaskSpec, best: Mapping[str, float]) -> dict[str, float]:
    """Of metrics of which the task file says what is best."""
    named = (metric.name for metric in spec.extras.metrics if metric.best != "last")
    return {name: best[name] for name in named if name in best}


Told = tuple[str, int, Reported]
"""Task, attempt, its metrics."""


def read_all(files: Sequence[tuple[str, int, str]]) -> list[Told]:
    """Of attempts (task, number, path of attempt-N.json) that reported anything."""
    found = ((name, number, Reported(*last_scores(path))) for name, number, path in files)
    return [told for told in found if told[2].last]
