"""Inherited priorities while a deck runs: a change reaches everything that the task waits for."""

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
    deck.urgent.update(dict.fromkeys(task.gates))


def spread_urgency(deck: Deck) -> None:
    """Tell the members of gates about changed demands."""
    while deck.urgent:
        gates, deck.urgent = deck.urgent, {}
        for gate in gates:
            demand = demand_of(deck, gate)
            if demand == gate.demand:
                continue
            gate.demand = demand
            if gate.before is not None:
                deck.urgent[gate.before] = None
            for index in gate.members:
                follow(deck, deck.tasks[index])
