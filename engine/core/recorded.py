"""What a journal says by itself, without a task file: its runs, its attempts, what was decided for good. One pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .events import (
    AttemptEnded,
    AttemptRunning,
    AttemptStarting,
    AttemptSubmitted,
    Fact,
    OptionsChanged,
    RunEnded,
    RunStarted,
    ShardsFixed,
    StartRevoked,
    TaskAccepted,
    TaskCached,
)

AttemptKey = tuple[str, int]
"""Task and number of an attempt."""


class Made(NamedTuple):
    """A result: what it counts as, and the attempt that made it, maybe of another task."""

    fingerprint: str
    attempt: AttemptKey


@dataclass(slots=True)
class Recorded:
    """A journal up to its last fact."""

    run: int = 0
    """Number of the newest run; 0: there was none."""
    unfinished: bool = False
    """The newest run has still to end."""
    options: str = ""
    """What the newest run was started with, encoded."""
    shards: dict[str, int] = field(default_factory=dict[str, int])
    """By entry, how many `shards` it was given."""
    starts: dict[AttemptKey, AttemptStarting] = field(default_factory=dict[AttemptKey, AttemptStarting])
    """All attempts but those whose start was taken back."""
    ends: dict[AttemptKey, AttemptEnded] = field(default_factory=dict[AttemptKey, AttemptEnded])
    revoked: set[AttemptKey] = field(default_factory=set[AttemptKey])
    """Starts that were taken back; the next one may have the same number."""
    lasting: dict[str, AttemptStarting] = field(default_factory=dict[str, AttemptStarting])
    """By task, the attempt that has not ended as far as the journal knows."""
    jobs: dict[AttemptKey, str] = field(default_factory=dict[AttemptKey, str])
    """A cluster's ids of attempts."""
    tokens: set[str] = field(default_factory=set[str])
    """Of every start, also of those that were taken back."""
    results: dict[str, Made] = field(default_factory=dict[str, Made])
    """By task, what its newest result is of."""
    _by_work: dict[str, AttemptKey] = field(default_factory=dict[str, AttemptKey])
    """By fingerprint, the newest attempt that succeeded with this work, under whatever name."""

    @property
    def ran_on_gpus(self) -> bool:
        """Whether real GPUs have been used."""
        return any(not uuid.startswith("SIM-") for start in self.starts.values() for uuid in start.gpus)

    @property
    def lasting_tokens(self) -> frozenset[str]:
        return frozenset(start.token for start in self.lasting.values())

    def is_over(self, attempt: AttemptKey) -> bool:
        return attempt in self.ends or attempt in self.revoked

    def add(self, fact: Fact) -> None:
        match fact:
            case AttemptStarting():
                key = fact.task, fact.attempt
                self.starts[key] = self.lasting[fact.task] = fact
                self.revoked.discard(key)
                self.tokens.add(fact.token)
            case AttemptSubmitted() | AttemptRunning():
                if fact.job:
                    self.jobs[fact.task, fact.attempt] = fact.job
            case AttemptEnded():
                self.ends[fact.task, fact.attempt] = fact
                self.lasting.pop(fact.task, None)
                if fact.outcome.ok:
                    self._made(fact.task, fact.fingerprint, (fact.task, fact.attempt))
            case TaskCached():
                made = self.results.get(fact.task)
                if made is None or made.fingerprint != fact.fingerprint:
                    self._made(fact.task, fact.fingerprint, self._by_work.get(fact.fingerprint))
            case TaskAccepted() if fact.task in self.results:
                self._made(fact.task, fact.fingerprint, self.results[fact.task].attempt)
            case StartRevoked():
                key = fact.task, fact.attempt
                self.starts.pop(key, None)
                self.jobs.pop(key, None)
                self.revoked.add(key)
                self.lasting.pop(fact.task, None)
            case RunStarted():
                self.run, self.unfinished, self.options = fact.run, True, fact.options
            case RunEnded():
                self.unfinished = False
            case OptionsChanged():
                self.options = fact.options
            case ShardsFixed():
                self.shards[fact.entry] = fact.shards
            case _:
                pass

    def _made(self, task: str, fingerprint: str, attempt: AttemptKey | None) -> None:
        """*attempt*: None: files alone tell of the result, and nobody knows what made them."""
        if attempt is None:
            self.results.pop(task, None)
        else:
            self.results[task] = Made(fingerprint, attempt)
            self._by_work[fingerprint] = attempt


def recorded(facts: Iterable[Fact]) -> Recorded:
    """What these facts say."""
    found = Recorded()
    for fact in facts:
        found.add(fact)
    return found
