"""One step under way: it applies each fact at once and collects what is to be written and done."""

from __future__ import annotations

from dataclasses import dataclass, field

from .apply import apply
from .deck import Deck, Task
from .effects import Effect
from .events import Fact
from .quarantine import Streaks


@dataclass(slots=True)
class Step:
    """What one step decided: facts to write first, effects to do once they are on disk."""

    facts: list[Fact] = field(default_factory=list[Fact])
    effects: list[Effect] = field(default_factory=list[Effect])


@dataclass(frozen=True, slots=True)
class Here:
    """Where an engine runs; a run that a verb begins is written with it."""

    boot_id: str
    host: str


@dataclass(slots=True, eq=False)
class Turn:
    deck: Deck
    streaks: Streaks
    at: float
    wall: float
    here: Here | None = None
    """None: where the last run was."""
    out: Step = field(default_factory=Step)
    touched: list[Task] = field(default_factory=list[Task])
    """Tasks whose leader or tree ended in this step."""

    @property
    def decided(self) -> int:
        """How much has been decided in this step so far."""
        return len(self.out.facts) + len(self.out.effects)

    def record(self, fact: Fact) -> None:
        apply(self.deck, fact)
        self.out.facts.append(fact)

    def do(self, effect: Effect) -> None:
        self.out.effects.append(effect)
