"""What must hold of a deck after every step. Costs a scan of everything: for tests and for `GPUDECK_CHECK=1`."""

from __future__ import annotations

from collections import Counter, defaultdict

from .deck import STANDING_OF_PHASE, Deck
from .gates import Gate, Standing
from .phases import ACTIVE, Phase, Queued


def violations(deck: Deck) -> list[str]:
    """Every broken invariant, in words; empty for a sound deck."""
    return [*_slots(deck), *_counts(deck), *_gates(deck), *_queue(deck)]


def _slots(deck: Deck) -> list[str]:
    found: list[str] = []
    holding: dict[str, set[str]] = defaultdict(set)
    for token, task in deck.active.items():
        attempt = task.attempt()
        if attempt is None or attempt.token != token:
            found.append(f"{task.name} is listed as active with a token that it does not have")
            continue
        for uuid in attempt.gpus:
            holding[uuid].add(token)
    for gpu in deck.gpus.values():
        if set(gpu.holders) != holding[gpu.uuid]:
            found.append(f"GPU {gpu.index}: holders {sorted(gpu.holders)}, attempts say {sorted(holding[gpu.uuid])}")
        if gpu.slots != "auto" and len(gpu.holders) > gpu.slots:
            found.append(f"GPU {gpu.index}: {len(gpu.holders)} holders on {gpu.slots} slots")
        if gpu.exclusive and len(gpu.holders) > 1:
            found.append(f"GPU {gpu.index}: shared although {gpu.exclusive} wants it alone")
    if deck.cpu_tasks > deck.cpu_slots:
        found.append(f"{deck.cpu_tasks} CPU slots held of {deck.cpu_slots}")
    return found


def _counts(deck: Deck) -> list[str]:
    found: list[str] = []
    counts: Counter[type[Phase]] = Counter(type(task.phase) for task in deck.tasks if task.selected)
    if {phase: n for phase, n in deck.counts.items() if n} != dict(counts):
        found.append(f"counts say {deck.counts}, tasks say {counts}")
    active = {task.name for task in deck.tasks if isinstance(task.phase, ACTIVE)}
    if active != {task.name for task in deck.active.values()}:
        found.append(f"active tasks: phases say {sorted(active)}")
    running = Counter(task.spec.entry for task in deck.active.values())
    for entry in deck.entries.values():
        if entry.running != running[entry.name]:
            found.append(f"{entry.name}: {entry.running} counted as running, {running[entry.name]} are")
    for task in deck.tasks:
        if task.selected and task.standing is not STANDING_OF_PHASE.get(type(task.phase), Standing.PENDING):
            found.append(f"{task.name}: stands as {task.standing.name} in phase {type(task.phase).__name__}")
    return found


def _gates(deck: Deck) -> list[str]:
    found: list[str] = []
    for gate in deck.gates:
        counts = [0, 0, 0, 0]
        for index in gate.members:
            counts[deck.tasks[index].standing] += 1
        if gate.behind is not None:
            counts[gate.behind] += 1
        if counts != gate.counts or gate.state is not gate.judged():
            found.append(f"gate {_label(gate)}: counts {gate.counts}, members say {counts}, state {gate.state.name}")
    return found


def _queue(deck: Deck) -> list[str]:
    queued = {task.index for task in deck.tasks if isinstance(task.phase, Queued)}
    stray = set(deck.queue) - queued
    found = [f"{deck.tasks[index].name} has a place in the queue and is not queued" for index in stray]
    if deck.queue.count != len(set(deck.queue)):
        found.append("the queue miscounts itself")
    return found


def _label(gate: Gate) -> str:
    return f"{gate.kind} {gate.label}"
