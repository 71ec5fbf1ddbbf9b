"""What a journal says by itself, without a task file: its runs, its attempts, what was decided for good. One pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
)
from .gpu_names import is_simulated

AttemptKey = tuple[str, int]
"""Task and number of an attempt."""


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

    @property
    def ran_on_gpus(self) -> bool:
        """Whether real GPUs have been used."""
        return any(not is_simulated(uuid) for start in self.starts.values() for uuid in start.gpus)

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


def recorded(facts: Iterable[Fact]) -> Recorded:
    """What these facts say."""
    found = Recorded()
    for fact in facts:
        found.add(fact)
    return found
