"""Why does it wait? Answered by the predicates that scheduling itself uses."""

from __future__ import annotations

from collections import Counter

from .deck import Deck, Task
from .fit import (
    Obstacle,
    ObstacleKind,
    bar,
    cpu_obstacle,
    crowd,
    host_obstacle,
    need_of,
    starts_barred,
    usable_limit,
    used_gpus,
)
from .gates import Gate, GateState, Standing
from .opening import is_changed
from .phases import Backoff, Blocked, Queued, Waiting
from .schedule import Reservation, may_fill, pick

NAMED = 5
"""Tasks that one obstacle names at most."""


def explain(deck: Deck, task: Task, at: float) -> list[Obstacle]:
    """Everything that keeps a task from starting now, the most telling first; empty for one that does not wait."""
    if not task.selected:
        return [Obstacle("left out", "left out by --only, --exclude or --limit")]
    match task.phase:
        case Waiting() | Blocked():
            return _gates(deck, task)
        case Backoff(until, after):
            wait = max(0.0, until - at)
            return [Obstacle("backoff", f"tried again in {wait:.0f} s ({after.reason})")]
        case Queued():
            return _queued(deck, task, at)
        case _:
            return []


def _queued(deck: Deck, task: Task, at: float) -> list[Obstacle]:
    if task.held:
        return [Obstacle("held", "held by the user")]
    barred = starts_barred(deck, at)
    if barred is not None:
        return [barred]
    if task.index not in deck.queue:
        return [Obstacle("checking", "its outputs are being looked at")]
    host = host_obstacle(deck, task)
    if host is not None:
        return [host]
    if deck.on_cpu or task.spec.resources.gpus == 0:
        obstacle = cpu_obstacle(deck, task)
        return [obstacle or _behind()]
    return _on_gpus(deck, task, at)


def _behind() -> Obstacle:
    return Obstacle("order", "others are before it in the queue")


def _on_gpus(deck: Deck, task: Task, at: float) -> list[Obstacle]:
    need = need_of(deck, task)
    found: list[Obstacle] = []
    room = 0
    held = _held_for_another(deck, task, at)
    for gpu in deck.gpus.values():
        obstacle = bar(deck, gpu, need, at) or crowd(gpu, need)
        if obstacle is None and held is not None and gpu.uuid in held.gpus:
            head = deck.tasks[held.task].name
            text = f"GPU {gpu.index}: held for {head} since {at - held.since:.0f} s"
            obstacle = Obstacle("reserved", text, gpu.uuid, (head,))
        if obstacle is None:
            room += 1
        else:
            found.append(obstacle)
    limit = usable_limit(deck)
    if room >= need.gpus or not found:
        if used_gpus(deck) + need.gpus > limit:
            return [Obstacle("keep_free", f"{len(deck.gpus) - limit} GPUs are left to others"), *found]
        return [_behind(), *found] if room >= need.gpus else [Obstacle("gpus", f"needs {need.gpus} GPUs"), *found]
    if need.gpus > 1:
        found.insert(0, Obstacle("gpus", f"needs {need.gpus} GPUs at once, {room} are free for it"))
    return found


def _held_for_another(deck: Deck, task: Task, at: float) -> Reservation | None:
    held = pick(deck, at).reservation
    if held is None or held.task == task.index or may_fill(deck, task, at, held):
        return None
    return held


def _gates(deck: Deck, task: Task) -> list[Obstacle]:
    found: list[Obstacle] = []
    for gate in task.gates:
        if gate.state is not GateState.OPEN:
            found.append(_gate(deck, gate))
    if not found:
        found.append(Obstacle("checking", "just opened"))
    return sorted(found, key=lambda obstacle: obstacle.kind)


def _gate(deck: Deck, gate: Gate) -> Obstacle:
    """What a shut gate, or the first shut one before it in a chain of rounds, waits for."""
    wanted = {Standing.FAILED, Standing.CANCELLED} if gate.state is GateState.SHUT else {Standing.PENDING}
    if gate.kind == "round" and gate.state is GateState.SHUT:
        wanted = {Standing.FAILED}
    names = [deck.tasks[index].name for index in gate.members if deck.tasks[index].standing in wanted]
    kind: ObstacleKind = "needs" if gate.kind == "needs" else "after" if gate.kind == "after" else "round"
    if not names:
        return Obstacle("round", f"an earlier round than {gate.label} is not done")
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    if gate.state is GateState.SHUT:
        verb = f"{gate.label} closed by {len(names)} failed" if kind == "round" else "needs"
        return Obstacle(kind, f"{verb}: {shown}" if kind == "round" else f"needs {shown}, which did not succeed")
    text = f"{gate.label} is not done: {shown}" if kind == "round" else f"waits for {shown}"
    return Obstacle(kind, text, "", tuple(names[:NAMED]))


def why_waiting(deck: Deck, at: float, most: int = 3) -> list[str]:
    """The commonest reasons over the heads of the queue and the shut gates: "14 tasks: GPU 0: 1 of 1 slots taken"."""
    reasons: Counter[str] = Counter()
    for place, _ in deck.queue.heads():
        obstacles = explain(deck, deck.tasks[place.task], at)
        if obstacles:
            reasons[obstacles[0].text] += 1
    for gate in deck.gates:
        if gate.state is not GateState.OPEN and gate.dependents:
            reasons[_gate(deck, gate).text] += len(gate.dependents)
    return [f"{count} waiting: {text}" for text, count in reasons.most_common(most)]


def flags(deck: Deck, task: Task) -> tuple[str, ...]:
    """Marks beside the phase: held, changed."""
    marks: list[str] = []
    if task.held:
        marks.append("held")
    if is_changed(deck, task):
        marks.append("changed")
    return tuple(marks)
