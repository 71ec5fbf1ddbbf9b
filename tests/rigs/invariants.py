"""What must hold of a deck after every step. Costs a scan of everything."""

from __future__ import annotations

from collections import Counter, defaultdict

from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.gates import Gate, GateState, Standing
from gpudeck.engine.core.gone import doing
from gpudeck.engine.core.marks import differs, is_outdated
from gpudeck.engine.core.phases import ACTIVE, Blocked, Phase, Queued, Waiting
from gpudeck.engine.core.task import STANDING_OF_PHASE
from gpudeck.engine.core.urgency import demand_of


def violations(deck: Deck) -> list[str]:
    """Every broken invariant, in words; empty for a sound deck."""
    return [
        *_slots(deck), *_counts(deck), *_gates(deck), *_queue(deck), *_followed(deck), *_urgency(deck), *_flags(deck),
    ]  # fmt: skip


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
    for gpu in (*deck.gpus.values(), *deck.outside.values()):
        if set(gpu.holders) != holding[gpu.uuid]:
            found.append(f"GPU {gpu.index}: holders {sorted(gpu.holders)}, attempts say {sorted(holding[gpu.uuid])}")
        if gpu.slots != "auto" and len(gpu.holders) > gpu.slots + gpu.surplus:
            found.append(f"GPU {gpu.index}: {len(gpu.holders)} holders on {gpu.slots} slots")
        if gpu.exclusive and len(gpu.holders) > 1:
            found.append(f"GPU {gpu.index}: shared although {gpu.exclusive} wants it alone")
    here = [task for task in deck.active.values() if (attempt := task.attempt()) is not None and not attempt.where]
    cores = sum(task.begun_spec.resources.cpus or 0 for task in here)
    slots = sum(attempt.cpu_slots for task in deck.active.values() if (attempt := task.attempt()) is not None)
    if (cores, slots) != (deck.cores_used, deck.cpu_used):
        found.append(f"{deck.cores_used} cores and {deck.cpu_used} CPU slots counted, attempts say {cores}, {slots}")
    writers = Counter(output for task in deck.active.values() for output in set(task.begun_spec.outputs))
    found += [f"{count} attempts write {output}" for output, count in writers.items() if count > 1]
    if deck.cpu_tasks > deck.cpu_slots + deck.cpu_surplus:
        found.append(f"{deck.cpu_tasks} CPU slots held of {deck.cpu_slots}")
    if deck.cluster and deck.cpu_used > deck.cluster + deck.cpu_surplus:
        found.append(f"{deck.cpu_used} jobs at once where {deck.cluster} are allowed")
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
        counts = [0] * len(Standing)
        for index in gate.members:
            counts[deck.tasks[index].standing] += 1
        if gate.behind is not None:
            counts[gate.behind] += 1
        if counts != gate.counts or gate.state is not gate.judged():
            found.append(f"gate {_label(gate)}: counts {gate.counts}, members say {counts}, state {gate.state.name}")
        if (gate in deck.closed) is (gate.state is GateState.OPEN):
            found.append(f"gate {_label(gate)}: {gate.state.name}, and not listed so")
    return found


def _queue(deck: Deck) -> list[str]:
    queued = {task.index for task in deck.tasks if isinstance(task.phase, Queued)}
    placed = set(deck.queue)
    found = [f"{deck.tasks[index].name} has a place in the queue and is not queued" for index in placed - queued]
    if deck.queue.count != len(placed):
        found.append("the queue miscounts itself")
    coming = placed | set(deck.arrivals) | deck.checking | set(deck.held_for_proof if deck.proving else [])
    coming |= {index for index in deck.held_for_work if doing(deck, deck.tasks[index]) is not None}
    for index in queued - coming:
        task = deck.tasks[index]
        if task.selected and not task.held and not deck.run.ended:
            found.append(f"{task.name} is queued and nothing will ever look at it")
    for index in placed:
        task = deck.tasks[index]
        if task.held or not task.selected:
            found.append(f"{task.name} has a place in the queue although it is held or left out")
    return found


def _followed(deck: Deck) -> list[str]:
    """Once every change of a gate has reached its dependents, each task stands as its gates say."""
    if deck.run.ended or deck.dirty or deck.unopened:
        return []
    wanted = {GateState.OPEN: Queued, GateState.WAIT: Waiting, GateState.SHUT: Blocked}
    found: list[str] = []
    for task in deck.tasks:
        phase = wanted[deck.gates_say(task)]
        if phase is Queued and task.index in deck.unasked:
            phase = Waiting
        if task.selected and type(task.phase) in wanted.values() and not isinstance(task.phase, phase):
            found.append(f"{task.name} is {type(task.phase).__name__}, its gates say {phase.__name__}")
    return found


def _flags(deck: Deck) -> list[str]:
    """Once every success has reached what builds on it, flags are as the tasks and their gates say."""
    found: list[str] = []
    changed = {task.index for task in deck.tasks if differs(task)}
    stale = {task.index for task in deck.tasks if is_outdated(task)}
    if changed != deck.marks.changed:
        found.append(f"flagged as changed: {sorted(deck.marks.changed)}, tasks say {sorted(changed)}")
    if stale != deck.marks.stale:
        found.append(f"flagged as stale: {sorted(deck.marks.stale)}, tasks say {sorted(stale)}")
    if deck.held != {task.index for task in deck.tasks if task.held}:
        found.append(f"listed as held: {sorted(deck.held)}")
    for gate in deck.gates:
        current = sum(deck.tasks[index].current for index in gate.dependents)
        if current != gate.current:
            found.append(f"gate {_label(gate)}: {gate.current} dependents counted as current, {current} are")
    return found


def _urgency(deck: Deck) -> list[str]:
    """Once every change has spread, a task is as urgent as all that waits for it."""
    if deck.urgent:
        return []
    found: list[str] = []
    for task in deck.tasks:
        wanted = max([task.priority, *(gate.demand for gate in task.feeds)])
        if task.effective != wanted:
            found.append(f"{task.name}: effective priority {task.effective}, those that wait for it say {wanted}")
    return found + [
        f"gate {_label(gate)}: demand {gate.demand}" for gate in deck.gates if gate.demand != demand_of(deck, gate)
    ]


def _label(gate: Gate) -> str:
    return f"{gate.kind} {gate.label}"
