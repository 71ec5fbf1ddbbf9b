"""Completes attempt-N.json of attempts that have ended; once that and the journal have the end, their records go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..core.deck import Deck
from ..core.events import AttemptEnded, AttemptStarting
from ..core.spec import TaskSpec
from ..logs.described import describe
from ..logs.files import AttemptPaths
from ..logs.record import AttemptEnd, Score
from ..logs.writer import AttemptJsonWriter
from ..ports import Launcher
from ..progress.following import Following, LastLook
from ..progress.reported import NOTHING, Seen
from .cluster import cards_of
from .histories import GpuHistories
from .usage import Usage


class Completing:
    """All methods on the loop's thread."""

    def __init__(
        self, deck: Deck, launcher: Launcher, writer: AttemptJsonWriter, usage: Usage, histories: GpuHistories
    ) -> None:
        self._deck = deck
        self._launcher = launcher
        self._writer = writer
        self._usage = usage
        self._histories = histories
        self.following: Following | None = None
        """Knows what the logs of attempts tell."""
        self.behind: Callable[[], bool] = lambda: False
        """Whether ends that are told here may not be on disk."""
        self._unwritten: dict[str, str] = {}
        """Token by path of attempt-N.json: ended, and still to be completed there."""
        self._unforgotten: list[str] = []

    def ended(self, fact: AttemptEnded, start: AttemptStarting, spec: TaskSpec | None, paths: AttemptPaths) -> None:
        """*spec*: what the attempt was started as, if anybody knows."""
        used, cards = self._usage.finish(start.token), cards_of(start, spec)
        self._histories.ended(used, paths)
        self._unwritten[paths.json] = start.token
        end = AttemptEnd(
            fact.outcome,
            describe(fact.outcome),
            ended_wall=fact.wall,
            duration_s=fact.duration_s,
            peak_mib=used.peak_mib or fact.peak_mib or None,
            mean_mib=used.mean_mib,
            peak_util_percent=used.peak_util_percent,
            mean_util_percent=used.mean_util_percent,
            mean_power_w=used.mean_power_w(cards),
            energy_wh=used.energy_wh(cards, fact.duration_s),
        )
        task = self._deck.by_name.get(fact.task)
        if task is None or spec is None or self.following is None:
            self._writer.end(paths.json, end)
        else:
            ended = LastLook(start.token, task, spec, paths, start.wall)
            self.following.finish(ended, lambda seen: self._write(paths, end, seen))

    def _write(self, paths: AttemptPaths, end: AttemptEnd, seen: Seen) -> None:
        if seen is NOTHING:
            self._writer.end(paths.json, end)
            return
        scores = {name: Score(last, seen.best.get(name)) for name, last in seen.metrics.items()}
        self._writer.end(paths.json, replace(end, progress=seen.fraction, metrics=scores))

    def written(self, paths: Sequence[str]) -> None:
        """These attempt-N.json have their end: nothing is left to do for them, and their records go.

        While the fact of an end is not on disk, its record is all that tells the next engine of it.
        """
        tokens = [self._unwritten.pop(path) for path in paths if path in self._unwritten]
        if self.behind():
            self._unforgotten += tokens
            return
        for token in tokens:
            self._launcher.forget(token)

    def caught_up(self) -> None:
        """All ends are on disk."""
        for token in self._unforgotten:
            self._launcher.forget(token)
        self._unforgotten.clear()
