"""Inherited priorities while a deck runs: a change reaches, in portions, everything that the task waits for."""

from __future__ import annotations

from .deck import Deck, Task
from .gates import Gate

NONE = -(2**31)
"""The demand of a gate that nobody waits at."""


def demand_of(deck: Deck, gate: Gate) -> int:
    later = gate.feeds_gate
    demand = NONE if later is None else later.demand
    tasks = deck.tasks
    return max(demand, max((tasks[index].effective for index in gate.dependents), default=NONE))


def follow(deck: Deck, task: Task) -> None:
    """Make a task as urgent as itself and the gates that it feeds ask for, and tell the gates that it waits at."""
    effective = max(task.priority, max((gate.demand for gate in task.feeds), default=NONE))
    if effective == task.effective:
        return
    task.effective = effective
    if task.index in deck.queue:
        deck.enqueue(task)
    for gate in task.gates:
        _push(deck, gate)


def _push(deck: Deck, gate: Gate) -> None:
    if gate not in deck.urgent:
        deck.urgent.append(gate)


def spread_urgency(deck: Deck, portion: int) -> int:
    """Tell the members of gates about changed demands. Returns what is left of the portion."""
    while portion > 0 and deck.urgent:
        gate = deck.urgent[0]
        demand = demand_of(deck, gate)
        portion -= 1 + len(gate.dependents) // 50
        if demand != gate.demand:
            gate.demand, gate.demand_cursor = demand, 0
            if gate.before is not None:
                _push(deck, gate.before)
        if gate.demand_cursor < 0:
            deck.urgent.popleft()
            continue
        end = min(len(gate.members), gate.demand_cursor + max(1, portion))
        portion -= end - gate.demand_cursor
        for place in range(gate.demand_cursor, end):
            follow(deck, deck.tasks[gate.members[place]])
        gate.demand_cursor = end
        if end == len(gate.members):
            gate.demand_cursor = -1
            deck.urgent.popleft()
            if demand_of(deck, gate) != gate.demand:
                deck.urgent.append(gate)
    return portion
