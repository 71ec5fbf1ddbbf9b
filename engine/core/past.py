"""Attempts of tasks that the task file no longer has: told to those who look back. Nothing is decided by them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .attempt_events import AttemptEnded, AttemptRunning, AttemptStarting, AttemptSubmitted
from .phases import Ended


class _Job(NamedTuple):
    id: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Past:
    ended: dict[str, tuple[Ended, ...]] = field(default_factory=dict[str, tuple[Ended, ...]])
    """By task, oldest first. Of a task that runs on although it is gone the deck itself knows."""
    _starts: dict[tuple[str, int], AttemptStarting] = field(default_factory=dict[tuple[str, int], AttemptStarting])

    _jobs: dict[tuple[str, int], _Job] = field(default_factory=dict[tuple[str, int], _Job])
    """What a cluster made of those that have not ended."""

    def started(self, fact: AttemptStarting) -> None:
        self._starts[fact.task, fact.attempt] = fact

    def submitted(self, fact: AttemptSubmitted) -> None:
        self._jobs[fact.task, fact.attempt] = _Job(fact.job)

    def running(self, fact: AttemptRunning) -> None:
        if fact.job:
            self._jobs[fact.task, fact.attempt] = _Job(fact.job, fact.nodes)

    def over(self, fact: AttemptEnded, run: int) -> None:
        start = self._starts.pop((fact.task, fact.attempt), None)
        job = self._jobs.pop((fact.task, fact.attempt), _Job())
        if start is not None:
            ended = Ended(
                fact.attempt, fact.outcome, start.gpus, fact.duration_s, fact.peak_mib, fact.wall, run, start.rung,
                start.card_mib, job.nodes, job.id,
            )  # fmt: skip
            self.ended[fact.task] = (*self.ended.get(fact.task, ()), ended)
