"""What must be over before a task may start, as counters: one gate for each set of predecessors, shared by all that
wait for it, so that an end costs a few additions however many tasks wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

GateKind = Literal["needs", "after", "round", "round ended"]


class Standing(IntEnum):
    """How a predecessor counts."""

    PENDING = 0
    GOOD = 1
    FAILED = 2
    """Failed for good, or an earlier round that is shut."""
    CANCELLED = 3
    """Cancelled or pruned: its round does not wait for it, what needs it does not start."""
    BLOCKED = 4


class GateState(IntEnum):
    WAIT = 0
    OPEN = 1
    SHUT = 2
    """Cannot open unless something that failed is mended."""


@dataclass(slots=True, eq=False)
class Gate:
    """A set of predecessors and how they stand. For rounds, `feeds_gate` chains to the group's next round."""

    kind: GateKind
    label: str
    """The pattern of needs and after, "round 2" or "group a, round 2" for rounds."""
    members: list[int] = field(default_factory=list[int])
    """Tasks by index."""
    dependents: list[int] = field(default_factory=list[int])
    """Tasks that may start only when it is open, in file order."""
    feeds_gate: Gate | None = None
    before: Gate | None = None
    """For rounds: the gate of the round before, which feeds this one."""
    demand: int = 0
    """The most urgent of its dependents and of the gates that it feeds."""
    behind: Standing | None = None
    """How the gate of the round before counts in this one; None: there is none."""
    counts: list[int] = field(default_factory=lambda: [0] * len(Standing))
    state: GateState = GateState.OPEN
    latest_success: float = 0.0
    """Wall time of the newest success among its members and the gates before it."""
    current: int = 0
    """Dependents that are done and not stale."""
    proof: int = -1
    """The deck's `proof` of when all its members' results were proven."""

    def judged(self) -> GateState:
        """The state that the counters ask for."""
        pending, _, failed, cancelled, blocked = self.counts
        if self.kind == "needs" and failed + cancelled + blocked:
            return GateState.SHUT
        if self.kind == "round" and failed + blocked:
            return GateState.SHUT
        return GateState.WAIT if pending else GateState.OPEN

    def count(self, old: Standing | None, new: Standing) -> bool:
        """Move one member from one standing to another (None: it joins). True when the state changed."""
        if old is not None:
            self.counts[old] -= 1
        self.counts[new] += 1
        state = self.judged()
        if state is self.state:
            return False
        self.state = state
        return True


STANDING_OF_GATE = {
    GateState.WAIT: Standing.PENDING,
    GateState.OPEN: Standing.GOOD,
    GateState.SHUT: Standing.FAILED,
}
"""How an earlier round counts in the gate of the next one."""
