"""How far attempts are and what they report: while they run, and in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ..core.deck import Deck
from ..core.spec import TaskSpec
from ..logs.curves import read_kept
from ..logs.files import AttemptPaths, curves_beside
from ..ports import Aside
from .record import last_scores

if TYPE_CHECKING:  # who only reads what was reported is spared it
    import asyncio

FIRST_S = 1.0
"""Who opens a deck sees it first."""
_TASKS = 256
"""Looked at in one go."""
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Progress:
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


NOTHING = Progress()


def best_of(spec: TaskSpec, best: Mapping[str, float]) -> dict[str, float]:
    """Of metrics of which the task file says what is best."""
    named = (metric.name for metric in spec.extras.metrics if metric.best != "last")
    return {name: best[name] for name in named if name in best}


LastProgress = tuple[str, int, Progress]
"""Task, attempt, what it reported last."""


def read_all(files: Sequence[tuple[str, int, str]]) -> list[LastProgress]:
    """Of attempts (task, number, path of attempt-N.json) that reported anything."""
    found: list[LastProgress] = []
    for name, number, path in files:
        last, best = last_scores(path)
        if last:
            kept = {curve.name: curve for curve in read_kept(curves_beside(path)).curves}
            first = kept.get(next(iter(last)))
            sparks = () if first is None else tuple(first.sparks())
            found.append((name, number, Progress(metrics=last, best=best, curve=sparks)))
    return found


class LastMetrics:
    """Of attempts that this engine has followed, and of those that ended under earlier ones, from their attempt-N.json.
    On the loop's thread; files are read in another, a few at a time, and no more of them once one does not answer."""

    def __init__(
        self,
        deck: Deck,
        loop: asyncio.AbstractEventLoop,
        paths: Callable[[str, int, bool], AttemptPaths],
        reader: Aside,
    ) -> None:
        """*paths*: `LogFolder.paths`. Begins to read by itself."""
        self._deck = deck
        self._paths = paths
        self._last: dict[str, Progress] = {}
        """Who reported nothing is not in it."""
        self._reader = reader
        self._timer = loop.call_later(FIRST_S, self._begin)

    def of(self, task: str) -> Progress:
        """As far as that has been read."""
        return self._last.get(task, NOTHING)

    def keep(self, task: str, progress: Progress) -> None:
        """Its attempt has ended with these; the task's row shows them."""
        if progress.metrics:
            self._last[task] = progress
            self.moved(task)

    def forget(self, task: str) -> None:
        """A newer attempt has ended."""
        self._last.pop(task, None)

    def moved(self, task: str) -> None:
        """The task's row is other than it was. An edit of the file may have given the task another place."""
        found = self._deck.by_name.get(task)
        if found is not None:
            self._deck.moved.add(found.index)

    def close(self) -> None:
        self._timer.cancel()
        self._reader.close()

    def _begin(self) -> None:
        newest = [(task.name, task.ended[-1].number) for task in self._deck.tasks if task.ended]
        files = [(name, number, self._paths(name, number, False).json) for name, number in newest]
        for at in range(0, len(files), _TASKS):
            self._reader.submit(partial(read_all, files[at : at + _TASKS]), self._read, timeout_s=_PATIENCE_S)

    def _read(self, found: list[LastProgress] | None) -> None:
        if found is None:
            self._reader.close()
            return
        for name, number, progress in found:
            task = self._deck.by_name.get(name)
            newest = task.ended[-1].number if task is not None and task.ended else 0
            if number == newest and name not in self._last:
                self.keep(name, progress)
