"""How a deck hangs together: entries by rounds, what needs what, and which rounds are open. In portions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from ..core.deck import Deck, Task
from ..core.explain import Explainer
from ..core.gates import Gate, GateState
from ..core.phases import NAMES
from ..protocol.pages import BarrierState, EdgeKind, Graph, GraphBarrier, GraphBox, GraphEdge

AT_ONCE = 1000
"""Tasks looked at in one turn of the loop."""

_Box = tuple[str, int, str]
"""Group, round, entry."""
_Item = TypeVar("_Item")
_STATES: dict[GateState, BarrierState] = {
    GateState.OPEN: "open", GateState.WAIT: "waits", GateState.SHUT: "shut",
}  # fmt: skip


class Graphs:
    """Of one deck: edges are worked out once for a task file, counts and barriers each time. On the loop's thread."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._gates: list[Gate] | None = None
        self._edges: dict[tuple[_Box, _Box, EdgeKind], None] = {}
        self._barriers: list[Gate] = []

    async def graph(self, boot_s: float) -> Graph:
        """As it is now; *boot_s* is CLOCK_BOOTTIME. The deck may get another file while this is worked out: then it is
        begun anew."""
        while True:
            gates = self._deck.gates
            if self._gates is not gates:
                await self._learn(gates)
            counts = await self._count()
            if self._deck.gates is gates:
                return self._told(counts, boot_s)

    async def _learn(self, gates: list[Gate]) -> None:
        edges: dict[tuple[_Box, _Box, EdgeKind], None] = {}
        barriers: list[Gate] = []
        tasks, looked = self._deck.tasks, 0
        for gate in gates:
            looked += 1 + len(gate.members) + len(gate.dependents)
            if gate.kind == "needs" or gate.kind == "after":
                behind = dict.fromkeys(_box(tasks[index]) for index in gate.dependents)
                before = dict.fromkeys(_box(tasks[index]) for index in gate.members) if behind else {}
                edges.update(dict.fromkeys((one, other, gate.kind) for one in before for other in behind))
            elif gate.dependents:
                barriers.append(gate)
            if looked >= AT_ONCE:
                looked = 0
                await asyncio.sleep(0)
        self._gates, self._edges, self._barriers = gates, edges, barriers

    async def _count(self) -> dict[_Box, Counter[str]]:
        counts: dict[_Box, Counter[str]] = {}
        async for task in _in_turns(self._deck.tasks):
            if task.selected:
                counts.setdefault(_box(task), Counter())[NAMES[type(task.phase)]] += 1
        return counts

    def _told(self, counts: dict[_Box, Counter[str]], boot_s: float) -> Graph:
        places = {box: place for place, box in enumerate(counts)}
        boxes = [
            GraphBox(entry=entry, group=group, round=number, total=found.total(), counts=dict(found))
            for (group, number, entry), found in counts.items()
        ]
        edges = [
            GraphEdge(before=places[before], behind=places[behind], kind=kind)
            for before, behind, kind in self._edges
            if before in places and behind in places
        ]
        explainer = Explainer(self._deck, boot_s)
        return Graph(boxes=boxes, edges=edges, barriers=[self._barrier(gate, explainer) for gate in self._barriers])

    def _barrier(self, gate: Gate, explainer: Explainer) -> GraphBarrier:
        spec = self._deck.tasks[gate.dependents[0]].spec
        closed = None if gate.state is GateState.OPEN else explainer.gate(gate)
        return GraphBarrier(
            group=spec.group,
            round=spec.round,
            barrier="succeeded" if gate.kind == "round" else "ended",
            state=_STATES[gate.state],
            why="" if closed is None else closed.text,
            tasks=() if closed is None else closed.tasks,
        )


def _box(task: Task) -> _Box:
    return task.spec.group, task.spec.round, task.spec.entry


async def _in_turns(items: Sequence[_Item]) -> AsyncIterator[_Item]:
    """With a turn of the loop for others after each portion."""
    for start in range(0, len(items), AT_ONCE):
        for item in items[start : start + AT_ONCE]:
            yield item
        await asyncio.sleep(0)
