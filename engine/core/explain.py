"""Why does it wait? Answered by the predicates that scheduling itself uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from ..text import duration
from .deck import Deck, Task
from .devices import Gpu, gib
from .fit import (
    Obstacle,
    ObstacleKind,
    bar,
    cluster_obstacle,
    cpu_obstacle,
    crowd,
    ended_in_words,
    host_obstacle,
    in_use,
    need_of,
    starts_barred,
    usable_limit,
    why_so_much,
)
from .gates import Gate, GateState, Standing
from .gone import doing
from .phases import Attempt, Backoff, Blocked, Queued, Starting, Stopping, Waiting
from .reserve import Reservation, held_on_host
from .schedule import Choice, held_from, pick

_UNASKED = "new since the last run, and this one takes up only what was retried: `gpudeck start` takes it up"
NAMED = 5
"""Tasks that one obstacle names at most."""


def explain(deck: Deck, task: Task, at: float, hour: Callable[[float], str] = lambda _: "") -> list[Obstacle]:
    """Everything that keeps a task from starting now, the most telling first; empty for one that does not wait.

    *hour*: a moment of the wall clock as people say it; empty: no such moment is told."""
    return Explainer(deck, at, hour).obstacles(task)


class Explainer:
    """Explains many tasks of one deck at one moment: what they have in common is worked out once."""

    def __init__(self, deck: Deck, at: float, hour: Callable[[float], str] = lambda _: "") -> None:
        self._deck = deck
        self._at = at
        self._hour = hour
        self._choice: Choice | None = None
        self._gates: dict[Gate, Obstacle] = {}

    def why(self, task: Task) -> str:
        """The most telling of what keeps a task from starting; empty for one that does not wait."""
        obstacles = self.obstacles(task)
        told = [obstacle for obstacle in obstacles if obstacle.kind != "ended"] or obstacles
        return told[0].text if told else ""

    def obstacles(self, task: Task) -> list[Obstacle]:
        """What `explain` returns."""
        if task.gone and isinstance(task.phase, (Waiting, Blocked, Backoff, Queued)):
            return [Obstacle("left out", "it is not in the task file any more")]
        if not task.selected and not task.gone:
            return [Obstacle("left out", "left out by --only, --exclude or --limit")]
        match task.phase:
            case Waiting() if task.index in self._deck.unasked:
                return [Obstacle("left out", _UNASKED)]
            case Backoff(until, after) if not self._deck.run.ended:
                wait = max(0.0, until - self._at)
                return [Obstacle("backoff", f"tried again in {duration(wait)} ({after.reason})")]
            case Blocked() if not self._deck.run.halted:  # the next run alone opens nothing
                return self._at_gates(task)
            case Waiting() | Blocked() | Backoff():
                ended = [Obstacle("ended", ended_in_words(self._deck))] if self._deck.run.ended else []
                return [*ended, *self._at_gates(task)]
            case Queued():
                return self._queued(task)
            case Starting(attempt) if not attempt.began and attempt.exited_at is None:
                return [_pending(attempt, self._hour)]
            case _:
                return []

    def gate(self, gate: Gate) -> Obstacle:
        """What a gate that is not open waits for."""
        if gate not in self._gates:
            self._gates[gate] = _gate(self._deck, gate)
        return self._gates[gate]

    def _at_gates(self, task: Task) -> list[Obstacle]:
        found = [
            (gate.state is not GateState.SHUT, self.gate(gate))
            for gate in task.gates
            if gate.state is not GateState.OPEN
        ]
        found.sort(key=lambda each: (each[0], each[1].kind))  # what blocks it goes before what it waits for
        if not found and not self._deck.run.ended:
            return [Obstacle("checking", "just opened")]
        return [obstacle for _, obstacle in found]

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
        if (other := doing(deck, task)) is not None:
            return [Obstacle("after", f"waits for {other.name}, which does its work", tasks=(other.name,))]
        if task.index not in deck.queue:
            if task.index in deck.checking:
                return [Obstacle("checking", "its outputs are being looked at")]
            if deck.proving:
                return [Obstacle("checking", "the outputs of what it needs are being looked at")]
            return [Obstacle("checking", "it has just been queued")]
        host = host_obstacle(deck, task) or self._held_on_host(task)
        if host is not None:
            return [
                host if host.tasks or host.kind == "hours" else replace(host, tasks=_in_the_way(deck, task, host.kind))
            ]
        if deck.cluster:
            full = cluster_obstacle(deck)
            return [_behind(deck, task) if full is None else replace(full, tasks=_in_the_way(deck, task, full.kind))]
        if deck.on_cpu or task.begun_spec.resources.gpus == 0:
            obstacle = cpu_obstacle(deck, task)
            if obstacle is not None:
                return [replace(obstacle, tasks=_in_the_way(deck, task, obstacle.kind))]
            return [_behind(deck, task)]
        return _on_gpus(deck, task, self._at, self._picked().reservation)

    def _held_on_host(self, task: Task) -> Obstacle | None:
        """What is held of cores and memory for another that is before this task in the queue."""
        asked = task.begun_spec.resources
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


def _pending(attempt: Attempt, hour: Callable[[float], str]) -> Obstacle:
    """A job that the cluster has not begun: "Slurm: begins ~14:05, Priority"."""
    cluster = attempt.where.capitalize()
    if not attempt.job:
        return Obstacle("pending", attempt.pending or f"on its way to {cluster}")
    return Obstacle("pending", f"{cluster}: {waits_in_words(attempt, hour) or f'job {attempt.job} has not begun'}")


def waits_in_words(attempt: Attempt, hour: Callable[[float], str]) -> str:
    """When the cluster is to begin it, and why it has not: "begins ~14:05, Priority"; "" where it tells nothing."""
    begins = "" if attempt.begins is None else hour(attempt.begins)
    return ", ".join(filter(None, (begins and f"begins ~{begins}", attempt.pending)))


def _in_the_way(deck: Deck, task: Task, kind: ObstacleKind) -> tuple[str, ...]:
    """The tasks under way that use up what a task needs of the box."""
    found: list[str] = []
    for other, attempt in deck.lasting:
        asked = other.begun_spec.resources
        uses = {
            "max_parallel": other.entry is task.entry,
            "cpus": bool(asked.cpus),
            "memory": bool(asked.memory_mib),
            "cpu slots": attempt.cpu_slots > 0,
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
    found = [
        Obstacle("slots", f"{other.name} makes way for it", tasks=(other.name,))
        for other in deck.active.values()
        if isinstance(other.phase, Stopping) and other.phase.why == "preempted" and other.phase.by == task.name
    ]
    found += _in_the_way_on_gpus(deck, task, at, reservation)
    if task.begun_spec.resources.gpu_memory_mib != "auto":
        return found
    for place, obstacle in enumerate(found):
        alone = obstacle.kind == "exclusive" and not deck.gpus[obstacle.gpu].exclusive
        if (alone and not task.begun_spec.resources.exclusive) or obstacle.kind == "gpu_memory":
            where_from = f" ({why_so_much(deck, task)})"
            found[place] = replace(obstacle, text=obstacle.text + where_from, why=obstacle.why + where_from)
            break
    return found


def _in_the_way_on_gpus(deck: Deck, task: Task, at: float, reservation: Reservation | None) -> list[Obstacle]:
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
        if obstacle is None and reservation is not None and gpu.uuid in held - reservation.leaves(need):
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
        names = tuple(other.name for other in deck.active.values() if other.begun_spec.resources.gpus != 0)
        return [Obstacle("keep_free", f"{deck.settings.keep_free} GPUs are left to others", "", names), *found]
    if need.gpus > 1 or not found:
        found.insert(0, Obstacle("gpus", f"needs {need.gpus} GPUs at once, {len(room)} are free for it"))
    return found


def _on(deck: Deck, gpu: Gpu) -> tuple[str, ...]:
    return tuple(deck.active[token].name for token in gpu.holders if token in deck.active)


def _held(deck: Deck, reservation: Reservation, what: str, uuid: str, at: float) -> Obstacle:
    head = deck.tasks[reservation.task].name
    return Obstacle("reserved", f"{what}: held for {head} since {duration(at - reservation.since)}", uuid, (head,))


def _gate(deck: Deck, gate: Gate) -> Obstacle:
    """What a shut gate, or the first shut one before it in a chain of rounds, waits for."""
    wanted = (Standing.PENDING,)
    if gate.state is GateState.SHUT:
        wanted = _SHUTS_ROUND if gate.kind == "round" else _SHUTS_NEED
    named = _named(deck, gate, wanted)
    kind: ObstacleKind = "needs" if gate.kind == "needs" else "after" if gate.kind == "after" else "round"
    if not named:
        return Obstacle("round", f"waits for a round before {gate.label}")
    count = sum(_own(gate, standing) for standing in wanted)
    shown = ", ".join(named) + (f" and {count - NAMED} more" if count > NAMED else "")
    if gate.state is GateState.SHUT:
        if kind == "round":
            return Obstacle(kind, f"{gate.label} closed by {_by_standing(gate, wanted)}: {shown}", "", named)
        left_out = ", ".join(name for name in named if not deck.by_name[name].selected)
        why = "left out by --only, --exclude or --limit" if left_out else "which did not succeed"
        return Obstacle(kind, f"needs {left_out or shown}, {why}", "", named)
    before = f"{gate.label}: " if kind == "round" else ""
    return Obstacle(kind, f"waits for {before}{shown}", "", named)


_SHUTS_ROUND = (Standing.FAILED, Standing.BLOCKED)
_SHUTS_NEED = (Standing.FAILED, Standing.CANCELLED, Standing.BLOCKED)


def _named(deck: Deck, gate: Gate, wanted: tuple[Standing, ...]) -> tuple[str, ...]:
    """Some members that stand so; such as failed themselves come before such as only follow from that."""
    named: list[str] = []
    for standing in wanted:
        most = min(NAMED - len(named), _own(gate, standing))
        members = (deck.tasks[index] for index in gate.members)
        named += islice((task.name for task in members if task.standing is standing), most)
    return tuple(named)


def _own(gate: Gate, standing: Standing) -> int:
    """How many of its members stand so; the round before it is none."""
    return gate.counts[standing] - (gate.behind is standing)


def _by_standing(gate: Gate, wanted: tuple[Standing, ...]) -> str:
    """ "5 failed and 2 blocked"."""
    counts = ((_own(gate, standing), standing) for standing in wanted)
    return " and ".join(f"{count} {standing.name.lower()}" for count, standing in counts if count)
