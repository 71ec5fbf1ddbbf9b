"""What the logs of attempts tell: while they run, and in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Seen:
    """How far an attempt is and what it reports."""

    fraction: float | None = None
    """0 to 1; None: its output does not tell."""
    eta_s: float | None = None
    """Seconds to its end."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Their last values."""
    last_line: str = ""
    """Printable, of either stream, shortened."""
    best: Mapping[str, float] = field(default_factory=dict[str, float])
    curve: Sequence[float] = ()
    """What the first of the metrics has been from its beginning on, a few points."""


NOTHING = Seen()
