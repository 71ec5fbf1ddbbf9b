"""Why does it wait? Answered by the predicates that scheduling itself uses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

from .deck import Deck, Task
from .devices import Gpu, gib
from .fit import (
    Obstacle,
    ObstacleKind,
    bar,
    cpu_obstacle,
    crowd,
    host_obstacle,
    in_use,
    need_of,
    starts_barred,
    usable_limit,
)
from .gates import Gate, GateState, Standing
from .phases import Backoff, Blocked, Cached, Queued, Succeeded, Unknown, Waiting
from .queue import LOOK_AT
from .readiness import is_changed, is_stale
from .reserve import Reservation, held_on_host
from .schedule import Choice, held_from, pick

NAMED = 5
"""Tasks that one obstacle names at most."""


def explain(deck: Deck, task: Task, at: float) -> list[Obstacle]:
    """Everything that keeps a task from starting now, the most telling first; empty for one that does not wait."""
    return Explainer(deck, at).obstacles(task)


class Explainer:
    """Explains many tasks of one deck at one moment: what they have in common is worked out once."""

    def __init__(self, deck: Deck, at: float) -> None:
        self._deck = deck
        self._at = at
        self._choice: Choice | None = None
        self._gates: dict[Gate, Obstacle] = {}

    def why(self, task: Task) -> str:
        """The most telling of what keeps a task from starting; empty for one that does not wait."""
        obstacles = self.obstacles(task)
        told = [obstacle for obstacle in obstacles if obstacle.kind != "ended"] or obstacles
        return told[0].text if told else ""

    def obstacles(self, task: Task) -> list[Obstacle]:
        """What `explain` returns."""
        if not task.selected:
            return [Obstacle("left out", "left out by --only, --exclude or --limit")]
        match task.phase:
            case Waiting() | Blocked():
                ended = [Obstacle("ended", "the run has ended")] if self._deck.run.ended else []
                return [*ended, *self._at_gates(task)]
            case Backoff(until, after):
                wait = max(0.0, until - self._at)
                return [Obstacle("backoff", f"tried again in {wait:.0f} s ({after.reason})")]
            case Queued():
                return self._queued(task)
            case _:
                return []

    def gate(self, gate: Gate) -> Obstacle:
        """What a gate that is not open waits for."""
        if gate not in self._gates:
            self._gates[gate] = _gate(self._deck, gate)
        return self._gates[gate]

    def _at_gates(self, task: Task) -> list[Obstacle]:
        found = [self.gate(gate) for gate in task.gates if gate.state is not GateState.OPEN]
        return sorted(found, key=lambda obstacle: obstacle.kind) or [Obstacle("checking", "just opened")]

    def _picked(self) -> Choice:
        if self._choice is None:
            self._choice = pick(self._deck, self._at)
        return self._choice

    def _queued(self, task: Task) -> list[Obstacle]:
        deck = self._deck
        if task.held:
            return [Obstacle("held", "held by the user")]
        barred = starts_barred(deck, self._at)
        if barred is not None:
            return [barred]
        if task.index not in deck.queue:
            return [Obstacle("checking", "its outputs are being looked at")]
        host = host_obstacle(deck, task) or self._held_on_host(task)
        if host is not None:
            return [host if host.tasks else replace(host, tasks=_in_the_way(deck, task, host.kind))]
        if deck.on_cpu or task.spec.resources.gpus == 0:
            obstacle = cpu_obstacle(deck, task)
            if obstacle is not None:
                return [replace(obstacle, tasks=_in_the_way(deck, task, obstacle.kind))]
            return [_behind(deck, task)]
        return _on_gpus(deck, task, self._at, self._picked().reservation)

    def _held_on_host(self, task: Task) -> Obstacle | None:
        """What is held of cores and memory for another that is before this task in the queue."""
        asked = task.spec.resources
        if not asked.cpus and not asked.memory_mib:
            return None
        deck = self._deck
        hold = held_on_host(deck, task, self._at, self._picked().holds)
        if hold is None:
            return None
        head = deck.tasks[hold.task]
        if (deck.key_of(head), head.index) > (deck.key_of(task), task.index):
            return None
        what = f"{hold.amount} cores" if hold.of == "cpus" else f"{gib(hold.amount)} of memory"
        return _held(deck, hold, what, "", self._at)


def _in_the_way(deck: Deck, task: Task, kind: ObstacleKind) -> tuple[str, ...]:
    """The tasks under way that use up what a task needs of the box."""
    found: list[str] = []
    for other in deck.active.values():
        asked = other.spec.resources
        attempt = other.attempt()
        uses = {
            "max_parallel": other.entry is task.entry,
            "cpus": bool(asked.cpus),
            "memory": bool(asked.memory_mib),
            "cpu slots": attempt is not None and attempt.cpu_slots > 0,
        }
        if uses.get(kind, False):
            found.append(other.name)
    return tuple(found or (other.name for other in deck.active.values()))


def _behind(deck: Deck, task: Task) -> Obstacle:
    """Nothing is in the way but the order of the queue."""
    if deck.checking:
        names = tuple(deck.tasks[index].name for index in islice(deck.checking, NAMED))
        return Obstacle("checking", f"the outputs of {names[0]} are being looked at first", "", names)
    mine = (deck.key_of(task), task.index)
    before: list[str] = []
    for place, _ in deck.queue.heads():
        if (place.key, place.task) >= mine or len(before) == NAMED:
            break
        before.append(deck.tasks[place.task].name)
    return Obstacle("order", "others are before it in the queue", "", tuple(before))


def _on_gpus(deck: Deck, task: Task, at: float, reservation: Reservation | None) -> list[Obstacle]:
    need = need_of(deck, task)
    held = held_from(deck, task, at, reservation)
    found: list[Obstacle] = []
    room: list[Gpu] = []
    for gpu in deck.gpus.values():
        obstacle = bar(deck, gpu, need, at)
        if obstacle is None:
            obstacle = crowd(gpu, need)
            if obstacle is not None:
                obstacle = replace(obstacle, tasks=_on(deck, gpu))
        if obstacle is None and reservation is not None and gpu.uuid in held:
            obstacle = _held(deck, reservation, f"GPU {gpu.index}", gpu.uuid, at)
        if obstacle is None:
            room.append(gpu)
        else:
            found.append(obstacle)
    used = in_use(deck)
    limit = usable_limit(deck)
    fresh = sum(gpu.uuid not in used for gpu in room)
    ready = len(room) - fresh
    if ready + min(fresh, max(0, limit - len(used | held))) >= need.gpus:
        return [_behind(deck, task), *found]
    if ready + min(fresh, max(0, limit - len(used))) >= need.gpus and reservation is not None:
        return [_held(deck, reservation, f"{len(held)} GPUs", "", at), *found]
    if len(room) >= need.gpus:
        names = tuple(other.name for other in deck.active.values() if other.spec.resources.gpus != 0)
        return [Obstacle("keep_free", f"{deck.settings.keep_free} GPUs are left to others", "", names), *found]
    if need.gpus > 1 or not found:
        found.insert(0, Obstacle("gpus", f"needs {need.gpus} GPUs at once, {len(room)} are free for it"))
    return found


def _on(deck: Deck, gpu: Gpu) -> tuple[str, ...]:
    return tuple(deck.active[token].name for token in gpu.holders if token in deck.active)


def _held(deck: Deck, reservation: Reservation, what: str, uuid: str, at: float) -> Obstacle:
    head = deck.tasks[reservation.task].name
    return Obstacle("reserved", f"{what}: held for {head} since {at - reservation.since:.0f} s", uuid, (head,))


def _gate(deck: Deck, gate: Gate) -> Obstacle:
    """What a shut gate, or the first shut one before it in a chain of rounds, waits for."""
    wanted = {Standing.FAILED, Standing.CANCELLED} if gate.state is GateState.SHUT else {Standing.PENDING}
    if gate.kind == "round" and gate.state is GateState.SHUT:
        wanted = {Standing.FAILED}
    members = (deck.tasks[index] for index in gate.members)
    named = tuple(islice((task.name for task in members if task.standing in wanted), NAMED))
    kind: ObstacleKind = "needs" if gate.kind == "needs" else "after" if gate.kind == "after" else "round"
    if not named:
        return Obstacle("round", f"an earlier round than {gate.label} is not done")
    count = sum(gate.counts[standing] for standing in wanted) - (gate.behind in wanted)
    shown = ", ".join(named) + (f" and {count - NAMED} more" if count > NAMED else "")
    if gate.state is GateState.SHUT:
        if kind == "round":
            return Obstacle(kind, f"{gate.label} closed by {count} failed: {shown}", "", named)
        left_out = ", ".join(name for name in named if not deck.by_name[name].selected)
        why = "left out by --only, --exclude or --limit" if left_out else "which did not succeed"
        return Obstacle(kind, f"needs {left_out or shown}, {why}", "", named)
    text = f"{gate.label} is not done: {shown}" if kind == "round" else f"waits for {shown}"
    return Obstacle(kind, text, "", named)


def why_waiting(deck: Deck, at: float, most: int = 3) -> list[str]:
    """The commonest reasons over the queue and the shut gates: "14 queued: every GPU is busy"."""
    found: Counter[str] = Counter()
    explainer = Explainer(deck, at)
    heads = list(islice(deck.queue.heads(), LOOK_AT))
    for place, shape in heads:
        obstacles = explainer.obstacles(deck.tasks[place.task])
        if obstacles:
            count = deck.queue.count if len(heads) == 1 else deck.queue.size(shape)
            found[f"queued: {_gist(obstacles)}"] += count
    for gate in islice((gate for gate in deck.closed if gate.dependents), LOOK_AT):
        found[f"waiting: {explainer.gate(gate).text}"] += len(gate.dependents)
    return [f"{count} {text}" for text, count in found.most_common(most)]


def _gist(obstacles: list[Obstacle]) -> str:
    """One obstacle for many: what each GPU says is of interest only where they say different things."""
    busy = all(obstacle.kind in ("slots", "gpus") for obstacle in obstacles)
    return "every GPU is busy" if busy and len(obstacles) > 1 else obstacles[0].text


_CLEARS_ITSELF: frozenset[ObstacleKind] = frozenset(
    {"later", "checking", "backoff", "memory", "lost", "unread", "foreign", "quiet", "quarantined"}
)
"""Obstacles that may go although nothing of ours ends and no user acts."""


def stuck_behind_unknown(deck: Deck, at: float) -> bool:
    """Nothing is under way but attempts of which nothing can be proven, and all that is queued waits for what they
    hold: only a user can help."""
    if deck.in_motion or not deck.active or not deck.queue.count:
        return False
    if not all(isinstance(task.phase, Unknown) for task in deck.active.values()):
        return False
    explainer = Explainer(deck, at)
    for place, _ in deck.queue.heads():
        obstacles = explainer.obstacles(deck.tasks[place.task])
        if not obstacles or any(_may_clear(deck, obstacle) for obstacle in obstacles):
            return False
    return True


def _may_clear(deck: Deck, obstacle: Obstacle) -> bool:
    if obstacle.kind == "gpu_memory":
        return not obstacle.tasks and deck.gpus[obstacle.gpu].others_mib > 0
    return obstacle.kind in _CLEARS_ITSELF


def flags(deck: Deck, task: Task) -> tuple[str, ...]:
    """Marks beside the phase: held, changed, stale."""
    marks: list[str] = []
    if task.held:
        marks.append("held")
    if is_changed(deck, task):
        marks.append("changed")
    success = deck.successes.get(task.name)
    if success is not None and isinstance(task.phase, (Succeeded, Cached)) and is_stale(task, success.wall):
        marks.append("stale")
    return tuple(marks)
