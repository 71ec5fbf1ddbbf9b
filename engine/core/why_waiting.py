"""What keeps a whole deck waiting, summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ..text import duration
from .deck import Deck, Task
from .explain import Explainer
from .fit import Obstacle, ObstacleKind
from .gates import Gate, GateState
from .phases import Backoff, Blocked, Phase, Starting, Unknown, Waiting
from .queue import LOOK_AT
from .schedule import pick

REASONS = 3
"""How many are told."""
COUNT_UP_TO = 5_000
"""Tasks behind gates that are counted one by one to sum up what keeps them."""


@dataclass(frozen=True, slots=True)
class Sum:
    """What keeps some tasks waiting."""

    line: str
    """ "5 blocked: needs a, which did not succeed"."""
    text: str = ""
    """The obstacle alone: "needs a, which did not succeed"; "" where there is no single one."""


def why_waiting(deck: Deck, at: float) -> list[str]:
    """What is tried again later, then the commonest reasons over the queue and the gates that are not open, then how
    many more there are: "14 queued: every GPU is busy", "5 blocked: needs a, which did not succeed", "3 more blocked".
    """
    return [found.line for found in sums(deck, at)]


def sums(deck: Deck, at: float, *, submitted: bool = True) -> list[Sum]:
    """The same, each with what it is about. *submitted*: with the jobs that a cluster has not begun."""
    later = _tried_again(deck, at)
    found: Counter[tuple[str, str]] = Counter()
    explainer = Explainer(deck, at)
    heads = list(islice(deck.queue.heads(), LOOK_AT))
    for place, shape in heads:
        obstacles = explainer.obstacles(deck.tasks[place.task])
        if obstacles:
            count = deck.queue.count if len(heads) == 1 else deck.queue.size(shape)
            found["queued", _gist(obstacles)] += count
    for place in deck.held_for_work:
        found["queued", explainer.why(deck.tasks[place])] += 1
    for word, gate, count in _behind_gates(deck):
        found[word, explainer.gate(gate).text] += count
    for text in _pending(deck, explainer) if submitted else ():
        found["submitted", text] += 1
    told = found.most_common(REASONS - len(later))
    lines = [*map(Sum, later), *(Sum(f"{count} {word}: {text}", text) for (word, text), count in told)]
    more = _more(deck, told)
    return [*lines, Sum(more)] if lines and more else lines


def _behind_gates(deck: Deck) -> Iterator[tuple[str, Gate, int]]:
    """How many tasks wait at a gate, or are blocked by it: each is counted once, however many gates are before it."""
    seen: set[int] = set()
    for gate in islice((gate for gate in deck.closed if gate.dependents), LOOK_AT):
        phase, word = (Blocked, "blocked") if gate.state is GateState.SHUT else (Waiting, "waiting")
        if len(gate.dependents) > COUNT_UP_TO - len(seen):
            yield word, gate, min(len(gate.dependents), deck.counts[phase])
            continue
        behind = {index for index in gate.dependents if _waits(deck.tasks[index], phase)} - seen
        seen |= behind
        if behind:
            yield word, gate, len(behind)


def holds_back(deck: Deck, gate: Gate) -> bool:
    """Whether a task that is to run waits at a closed gate, or is blocked by it."""
    phase = Blocked if gate.state is GateState.SHUT else Waiting
    return any(_waits(deck.tasks[index], phase) for index in gate.dependents)


def _pending(deck: Deck, explainer: Explainer) -> Iterator[str]:
    """Of each job that a cluster has not begun, why."""
    for task in deck.active.values() if deck.cluster else ():
        if isinstance(task.phase, Starting):
            yield from (obstacle.text for obstacle in explainer.obstacles(task))


def _waits(task: Task, phase: type[Phase]) -> bool:
    return task.selected and isinstance(task.phase, phase)


def _more(deck: Deck, told: Sequence[tuple[tuple[str, str], int]]) -> str:
    """What no line has told of: "3 more blocked", "" where there is nothing."""
    queued = deck.queue.count + len(deck.held_for_work)
    left = {"queued": queued, "waiting": deck.counts[Waiting], "blocked": deck.counts[Blocked]}
    for (word, _), count in told:
        if word in left:
            left[word] -= count
    return ", ".join(f"{count} more {word}" for word, count in left.items() if count > 0)


def _tried_again(deck: Deck, at: float) -> list[str]:
    """Of everything in backoff one line."""
    count = deck.counts[Backoff]
    if not count:
        return []
    due_ones = () if deck.run.ended else deck.deadlines
    waiting = (deck.tasks[deadline.task] for deadline in due_ones if deadline.kind == "backoff")
    due = min(((task.phase.until, task.name) for task in waiting if isinstance(task.phase, Backoff)), default=None)
    first = "" if due is None else f": {due[1]} in {duration(due[0] - at)}"
    return [f"1 waits for its next attempt{first}" if count == 1 else f"{count} wait for their next attempts{first}"]


def _gist(obstacles: list[Obstacle]) -> str:
    """One obstacle for many: what each GPU says is of interest only where they say different things."""
    busy = all(obstacle.kind in ("slots", "gpus") for obstacle in obstacles)
    return "every GPU is busy" if busy and len(obstacles) > 1 else obstacles[0].text


_CLEARS_ITSELF: frozenset[ObstacleKind] = frozenset({
    "disk", "disk space", "later", "hours", "checking", "backoff", "memory", "lost", "unread", "claimed", "foreign",
    "quiet", "quarantined",
})  # fmt: skip
"""Obstacles that may go although nothing of ours ends and no user acts."""


def only_a_user_helps(deck: Deck, at: float) -> bool:
    """Nothing is under way but attempts of which nothing can be proven, and all that is queued waits for what they
    hold, or for GPUs that a user has drained."""
    if deck.in_motion or not deck.queue.count or not (deck.active or deck.gpus):
        return False
    if not all(isinstance(task.phase, Unknown) for task in deck.active.values()):
        return False
    if pick(deck, at).placement is not None:
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
