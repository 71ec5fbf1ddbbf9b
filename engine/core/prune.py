"""What is lost, early: a task is judged among its peers, the other tasks of its entry, each time it reaches a point.

The median rule is that of Google's Vizier (Golovin et al. 2017), asha the one of Li et al. (2020) in the form that
stops what is lost instead of promoting what is not. Both judge a task when it arrives, by those that have come as far.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import events as e
from .phases import Cancelled, Failed, Pruned
from .spec import FEWEST_PEERS, Prune
from .task import Task


@dataclass(frozen=True, slots=True)
class Lost:
    """A task did not reach what it had to at a point."""

    bar: float
    """What it had to."""
    peers: int
    """How many others had come as far."""

    def words(self, prune: Prune, point: float, value: float | None) -> str:
        """One line: "val_loss 0.91 at 25 %: the median of 4 peers is 0.43"."""
        own = "not a number" if value is None else f"{value:.4g}"
        if prune.rule == "median":
            bar = f"the median of {self.peers} peers is {self.bar:.4g}"
        else:
            bar = f"the best {_percent(prune.kept)} of {self.peers + 1} have {self.bar:.4g} or better"
        return f"{prune.name} {own} at {_percent(point)}: {bar}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def judged(prune: Prune, value: float | None, peers: Iterable[float | None]) -> Lost | None:
    """Whether a task is lost at a point; None: it goes on.

    *value*: its best until there; None, which is worse than any number: it is not a number. *peers*: those of the
    others that have come as far. The best never is, nor any that is equal to it.
    """
    sign = -1.0 if prune.is_max else 1.0
    costs = sorted(_cost(each, sign) for each in peers)
    own = _cost(value, sign)
    bar = _bar(prune, own, costs)
    return None if bar is None or own <= bar else Lost(sign * bar, len(costs))


def _cost(value: float | None, sign: float) -> float:
    """The smaller the better."""
    return math.inf if value is None or math.isnan(value) else sign * value


def _bar(prune: Prune, own: float, peers: Sequence[float]) -> float | None:
    """The highest cost with which a task goes on; None: too few have come as far. *peers*: rising."""
    count = len(peers)
    if count < FEWEST_PEERS:
        return None
    match prune.rule:
        case "median" if count >= prune.kept:
            low, high = peers[(count - 1) // 2], peers[count // 2]
            return (low + high) / 2 if math.isfinite(low + high) else high
        case "asha" if going_on := int((count + 1) * prune.kept + 1e-9):
            return sorted([*peers, own])[going_on - 1]
        case _:
            return None


def lost_among(prune: Prune, value: float | None, others: Sequence[tuple[float | None, bool]]) -> Lost | None:
    """Judge a task by those that have come as far: the value of each, and whether it is one that remains. One of these
    must be better, so that something better than what is stopped is left."""
    sign = -1.0 if prune.is_max else 1.0
    best = min((_cost(its, sign) for its, remains in others if remains), default=math.inf)
    return judged(prune, value, [its for its, _ in others]) if best < _cost(value, sign) else None


def lost_at(task: Task, prune: Prune, point: float, value: float | None, tasks: Mapping[str, Task]) -> Lost | None:
    """Judge a task that has come to *point*. *tasks*: all of the deck by name.

    Its peers are those of the others that did the work that the file now says, and have not failed or been cancelled.
    """
    others: list[tuple[float | None, bool]] = []
    for name, (work, its) in task.entry.reached.get((prune.metric, point), {}).items():
        other = tasks.get(name)
        if other is None or other is task or other.gone or other.spec.fingerprint != work:
            continue
        if not isinstance(other.phase, (Failed, Cancelled)):
            others.append((its, not isinstance(other.phase, Pruned)))
    return lost_among(prune, value, others)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A task that has come to its end without being judged, with what it had reached on its way."""

    task: str
    start: float
    """By any clock, in seconds."""
    duration_s: float
    points: tuple[tuple[float, float | None], ...]
    """Point and best value until there, rising."""


def replayed(prune: Prune, runs: Sequence[PastRun]) -> dict[str, tuple[float, float | None, Lost]]:
    """Which of the runs of one entry the rule would have stopped, at which point and with which value; as if each had
    made progress evenly, and all others had begun when they did."""
    passed = sorted(
        (run.start + point * run.duration_s, place, run.task, point, value)
        for place, run in enumerate(runs)
        for point, value in run.points
    )
    stopped: dict[str, tuple[float, float | None, Lost]] = {}
    known: dict[float, dict[str, float | None]] = {}
    for _, _, task, point, value in passed:
        if task in stopped:
            continue
        at = known.setdefault(point, {})
        lost = lost_among(prune, value, [(its, name not in stopped) for name, its in at.items()])
        at[task] = value
        if lost is not None:
            stopped[task] = (point, value, lost)
    return stopped


def is_known(task: Task, metric: str, point: float, work: str) -> bool:
    """This very work has been judged at this point: by an attempt of before, too. So a task that was pruned and is
    taken up again by hand goes on, at least to its next point."""
    found = task.entry.reached.get((metric, point), {}).get(task.name)
    return found is not None and found[0] == work


def reached(task: Task, fact: e.PointReached, work: str) -> None:
    """Part of `apply`. *work*: fingerprint of the attempt."""
    task.entry.reached.setdefault((fact.metric, fact.point), {})[task.name] = (work, fact.value)


def judge_anew(task: Task) -> None:
    """It has succeeded and runs again: what it reached then is no news of it. Part of `apply`."""
    for known in task.entry.reached.values():
        known.pop(task.name, None)
