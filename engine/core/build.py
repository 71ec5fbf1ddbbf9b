"""From specs to a deck: indexes, gates, inherited priorities. Done once at start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from ..core.selector import is_glob
from .deck import Deck, Task
from .devices import Gpu
from .gates import STANDING_OF_GATE, Gate, GateKind, GateState, Standing
from .gpu_names import means
from .phases import Waiting
from .spec import DeckFile, DeckSettings, matching
from .urgency import demand_of

ON_CPU_AT_MOST = 4
"""GPU tasks at once on a box without GPUs."""


def build(
    file: DeckFile,
    *,
    gpus: Sequence[Gpu],
    outside: Sequence[Gpu] = (),
    cores: int,
    on_cpu: bool = False,
) -> Deck:
    """A deck before its first run. *gpus* in order of preference; *outside*: the box's others; *on_cpu*: GPU tasks run
    on CPU slots. To a deck whose tasks run on a cluster nothing of this box matters."""
    settings = file.settings
    if settings.backend == "slurm":
        jobs = max(1, settings.max_submitted)
        deck = Deck(settings=settings, cpu_slots=jobs, cores=cores, on_cpu_slots=jobs, cluster=jobs)
    else:
        cpu_slots = settings.cpu_slots if settings.cpu_slots is not None else cores
        deck = Deck(settings=settings, cpu_slots=max(1, cpu_slots), cores=cores, on_cpu=on_cpu)
        deck.on_cpu_slots = min(deck.cpu_slots, max(1, min(cores, ON_CPU_AT_MOST)))
        deck.gpus = {gpu.uuid: gpu for gpu in gpus}
        deck.outside = {gpu.uuid: gpu for gpu in outside}
    for spec in file.tasks:
        task = deck.add(spec, selected=file.selected is None or spec.name in file.selected)
        task.entry.tasks.append(task.index)
        if spec.next:
            deck.next_tasks.append(task.index)
    deck.hourly = any(spec.resources.begin or spec.resources.between for spec in file.tasks)
    named = Counter(output for spec in file.tasks for output in set(spec.outputs))
    deck.shared_outputs = {output for output, count in named.items() if count > 1}
    deck.counts[Waiting] = sum(task.selected for task in deck.tasks)
    _add_gates(deck)
    inherit_priorities(deck)
    return deck


def slots_of(settings: DeckSettings, index: int, uuid: str) -> int | Literal["auto"]:
    """Slots on one GPU, which [deck] may name by index, UUID or the beginning of one; 1 where it does not."""
    slots = settings.slots_per_gpu
    if not isinstance(slots, Mapping):
        return slots
    found = (count for name, count in slots.items() if means(name, index=index, uuid=uuid))
    return slots[uuid] if uuid in slots else next(found, 1)


class _Gates:
    """Makes each gate once and remembers who feeds and who waits."""

    def __init__(self, deck: Deck) -> None:
        self.deck = deck
        self.waits: dict[int, list[Gate]] = defaultdict(list)
        self.feeds: dict[int, list[Gate]] = defaultdict(list)
        self._found: dict[str, dict[int, None]] = {}
        self._made: dict[tuple[GateKind, str, int], Gate] = {}

    def members(self, pattern: str) -> dict[int, None]:
        if pattern not in self._found:
            by_name = self.deck.by_name
            names = matching(pattern, by_name) if is_glob(pattern) else [pattern]
            self._found[pattern] = {by_name[name].index: None for name in names if name in by_name}
        return self._found[pattern]

    def named(self, kind: GateKind, pattern: str, task: Task) -> Gate:
        """The gate of a needs or after pattern; a glob never means the task that has it."""
        members = self.members(pattern)
        own = task.index if task.index in members and is_glob(pattern) else -1
        gate = self._made.get((kind, pattern, own))
        if gate is None:
            gate = Gate(kind, pattern, [index for index in members if index != own])
            self._made[kind, pattern, own] = gate
            self.add(gate)
        return gate

    def add(self, gate: Gate) -> None:
        self.deck.gates.append(gate)
        for index in gate.members:
            self.feeds[index].append(gate)

    def wait(self, task: Task, gate: Gate) -> None:
        self.waits[task.index].append(gate)
        gate.dependents.append(task.index)


def _add_gates(deck: Deck) -> None:
    made = _Gates(deck)
    _add_rounds(deck, made)
    for task in deck.tasks:
        if not task.selected:
            continue
        for pattern in task.spec.needs:
            made.wait(task, made.named("needs", pattern, task))
        for pattern in task.spec.after:
            made.wait(task, made.named("after", pattern, task))
    for task in deck.tasks:
        task.gates = tuple(made.waits.get(task.index, ()))
        task.feeds = tuple(made.feeds.get(task.index, ()))
    for gate in deck.gates:
        for index in gate.members:
            gate.counts[deck.tasks[index].standing] += 1
    for gate in deck.gates:
        gate.state = gate.judged()
        if gate.feeds_gate is not None:
            gate.feeds_gate.behind = STANDING_OF_GATE[gate.state]
            gate.feeds_gate.counts[gate.feeds_gate.behind] += 1
        if gate.state is not GateState.OPEN:
            deck.closed[gate] = None


def _add_rounds(deck: Deck, made: _Gates) -> None:
    """One chain of gates for each group and barrier: round k waits for the tasks of the round before and its gate."""
    groups: dict[str, dict[int, list[Task]]] = defaultdict(lambda: defaultdict(list))
    for task in deck.tasks:
        if task.selected:
            groups[task.spec.group][task.spec.round].append(task)
    for group, rounds in groups.items():
        numbers = sorted(rounds)
        for barrier in dict.fromkeys(task.spec.barrier for tasks in rounds.values() for task in tasks):
            kind: GateKind = "round" if barrier == "succeeded" else "round ended"
            last: Gate | None = None
            for before, number in pairwise(numbers):
                label = f"round {before}" if not group else f"group {group}, round {before}"
                gate = Gate(kind, label, [task.index for task in rounds[before]])
                made.add(gate)
                if last is not None:
                    last.feeds_gate, gate.before = gate, last
                last = gate
                for task in rounds[number]:
                    if task.spec.barrier == barrier:
                        made.wait(task, gate)


def inherit_priorities(deck: Deck) -> None:
    """A task is as urgent as the most urgent one that waits for it, directly or not."""
    for task in deck.tasks:
        task.effective = task.priority
    deck.mixed = len({task.priority for task in deck.tasks}) > 1
    if deck.mixed:
        _spread_priorities(deck)
    for gate in reversed(deck.gates):
        gate.demand = demand_of(deck, gate)


def _spread_priorities(deck: Deck) -> None:
    seen: set[Gate] = set()
    # Most urgent first: a gate that was passed once has given all that it can give.
    for task in sorted((task for task in deck.tasks if task.gates), key=lambda task: -task.priority):
        todo = list(task.gates)
        while todo:
            gate = todo.pop()
            if gate in seen:
                continue
            seen.add(gate)
            if gate.before is not None:
                todo.append(gate.before)
            for index in gate.members:
                member = deck.tasks[index]
                if member.effective < task.priority:
                    member.effective = task.priority
                    todo.extend(member.gates)


def stand_in(deck: Deck, task: Task, *, good: bool) -> None:
    """Let a task that --only leaves out count for those that need it: as done, or as not to be had."""
    new = Standing.GOOD if good else Standing.FAILED
    old, task.standing = task.standing, new
    if old is new:
        return
    for gate in task.feeds:
        if gate.count(old, new):
            deck.gate_changed(gate)
