"""A running task makes way for a more urgent one: who may, who is taken, and how it is asked.

Only what can be gone on from is taken: its resume_command would run, from a checkpoint that it has left or begun from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import events as e
from . import inputs as i
from .attempts import stop
from .deck import Deck, Task
from .effects import Warn
from .fit import could_have, crowd, in_use, need_of, starts_barred, usable_limit
from .phases import Attempt, Closing, Running, Stopping
from .turn import Turn

WARNED_S = 30.0
"""What heeds its warn_signal has at most this long before it is stopped: somebody waits."""


@dataclass(frozen=True, slots=True)
class Want:
    """What a queued task waits for."""

    count: int
    """GPUs, with those for what is next before it: that has the first that come free."""
    gpus: tuple[str, ...]
    """UUIDs of those that it could have, did others leave them."""
    priority: int
    free: tuple[str, ...] = ()
    """Those of them that nobody has: a task on one starts there in a moment, one on several keeps them."""
    claimed: tuple[str, ...] = ()
    """Those that other decks had when they were last asked."""
    whole: bool = False
    """A slot may not do: it wants memory, or a card for itself."""


@dataclass(frozen=True, slots=True)
class Place:
    """GPUs, or slots on them, that come free when these attempts end."""

    gpus: frozenset[str]
    tokens: tuple[str, ...]
    tasks: tuple[str, ...]
    lost_s: float
    """Work that is lost: the time since their checkpoints, together."""
    priority: int = 0
    """The highest of theirs."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a deck has for a more urgent task."""

    places: tuple[Place, ...]
    coming: tuple[str, ...]
    """GPUs, or slots on them, that come free already: their tasks are making way."""


def want(deck: Deck, task: Task, at: float) -> Want | None:
    """None: other GPUs would not help it now."""
    if deck.cluster or deck.on_cpu or starts_barred(deck, at) is not None:
        return None
    gpus, need = could_have(deck, task, at), need_of(deck, task)
    if not gpus:
        return None
    free = [gpu for uuid in gpus if not (gpu := deck.gpus[uuid]).claimed and crowd(gpu, need) is None]
    fresh = [gpu for gpu in free if not gpu.used][: max(0, usable_limit(deck) - len(in_use(deck)))]
    had = tuple(gpu.uuid for gpu in free if gpu.used or gpu in fresh)
    claimed = tuple(uuid for uuid in gpus if deck.gpus[uuid].claimed)
    whole = need.alone or need.memory_mib is not None
    return Want(need.gpus + _ahead(deck, task, at), tuple(gpus), task.effective, had, claimed, whole)


def _ahead(deck: Deck, task: Task, at: float) -> int:
    """GPUs that what is next before it still waits for."""
    others = (deck.tasks[index] for index in deck.next_tasks if index != task.index)
    before = [other for other in others if deck.key_of(other) < deck.key_of(task)]
    return sum(need_of(deck, other).gpus for other in before if could_have(deck, other, at))


def candidates(deck: Deck) -> list[tuple[Task, Attempt]]:
    """What runs and could be gone on from, were there a checkpoint."""
    return [(task, attempt) for task, attempt in deck.lasting if _may_yield(task, attempt)]


def _may_yield(task: Task, attempt: Attempt) -> bool:
    """It would go on as what it was begun as; and what is next itself makes way for nobody."""
    resume = task.spec.resume
    if resume is None or not resume.when or task.spec.next or task.gone or attempt.where or not attempt.gpus:
        return False
    runs = isinstance(task.phase, Running) and attempt.exited_at is None and not attempt.unwanted
    return runs and (attempt.counts_as or attempt.fingerprint) == task.spec.fingerprint


def work_lost_s(task: Task, attempt: Attempt, changed_wall: float | None, wall: float) -> float | None:
    """What an attempt loses that is stopped now. *changed_wall*: when its newest checkpoint changed; None: there is
    none. None: it would lose all. A file from before its start is its checkpoint only where it has begun from that."""
    if changed_wall is None:
        return None
    if changed_wall >= attempt.wall:
        return max(0.0, wall - changed_wall)
    return max(0.0, wall - attempt.wall) if task.goes_on else None


def offer(deck: Deck, lost_s: Mapping[str, float], *, whole: bool) -> Offer:
    """*lost_s*: by token, of the `candidates` that have a checkpoint. *whole*: GPUs that nothing else is on then, as
    another deck needs them; else slots."""
    ending = [attempt for task, attempt in deck.lasting if _makes_way(task)]
    coming = [uuid for attempt in ending for uuid in attempt.gpus]
    if whole:
        tokens = {attempt.token for attempt in ending}
        coming = [gpu.uuid for gpu in deck.gpus.values() if gpu.holders and gpu.holders.keys() <= tokens]
    return Offer(tuple(_places(deck, lost_s, whole=whole)), tuple(coming))


def _makes_way(task: Task) -> bool:
    return isinstance(task.phase, (Stopping, Closing)) and task.phase.why == "preempted"


def _places(deck: Deck, lost_s: Mapping[str, float], *, whole: bool) -> list[Place]:
    found: dict[tuple[str, ...], Place] = {}
    for _, attempt in candidates(deck):
        beside = {token for gpu in deck.gpus_of(attempt) for token in gpu.holders} if whole else {attempt.token}
        tokens = tuple(sorted(beside))
        if beside <= lost_s.keys():
            tasks = [deck.active[token] for token in tokens]
            lost = sum(lost_s[token] for token in tokens)
            names = tuple(task.name for task in tasks)
            found[tokens] = Place(frozenset(attempt.gpus), tokens, names, lost, max(task.effective for task in tasks))
    return list(found.values())


def cheapest(found: Sequence[Place], gpus: Iterable[str], count: int) -> list[Place]:
    """Those that together free so many of these GPUs, of the least work lost, then of the lowest priority. [] where
    all of them are not enough: nobody is stopped in vain."""
    wanted, taken = set(gpus), list[Place]()
    for place in sorted(found, key=lambda place: (place.lost_s, place.priority, place.tasks)):
        if count > 0 and (had := len(wanted & place.gpus)):
            taken.append(place)
            wanted -= place.gpus
            count -= had
    return taken if count <= 0 else []


def preempt(turn: Turn, item: i.Preempt) -> None:
    """That it is stopped, for whom, and until when it is warned, is one fact: an engine that comes later goes on from
    there."""
    able = {attempt.token: (task, attempt) for task, attempt in candidates(turn.deck)}
    if not able.keys() >= set(item.tokens):
        return
    for task, attempt in (able[token] for token in item.tokens):
        policy = task.begun_policy
        if policy.warn_signal is None:
            stop(turn, task, attempt, "preempted", item.by)
        else:
            until = turn.at + min(policy.warn_before_s, WARNED_S)
            kill_at = until + policy.grace_s
            turn.record(e.StopRequested(task.name, attempt.number, "preempted", item.by, turn.at, kill_at))
            warn_first(turn, task, attempt, until)
        item.did.append(task.name)


def warn_first(turn: Turn, task: Task, attempt: Attempt, until: float) -> None:
    """It is being stopped, and has until then to write a checkpoint."""
    if (signal := task.begun_policy.warn_signal) is not None:
        turn.do(Warn(attempt.token, signal))
    turn.deck.wake(until, "warned", task.index, attempt.token)
