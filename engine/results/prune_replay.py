"""What `prune` would have come to over runs that are over: their logs are read once more, and the rule is replayed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..attempts.running import Followed, RunningAttempt
from ..core.deck import Task
from ..core.marks import is_of_other_work
from ..core.phases import Cached, Succeeded
from ..core.prune import Lost, PastRun, is_known, replayed
from ..core.spec import Prune
from ..logs.follow import Follower
from .results import Records

LOG_BYTES = 64 << 20
"""Of longer logs the end is read."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A task that would have been pruned."""

    task: str
    point: float
    why: str
    saved_s: float
    """GPU seconds: of a task without GPUs seconds."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What a rule would have come to over the tasks of one entry."""

    entry: str
    prune: Prune
    judged: int
    """How many tasks could be."""
    stopped: Sequence[Stopped]
    spent_s: float
    """GPU seconds of all that could be judged."""
    best: str
    """The task that came to the best value in the end."""
    best_value: float
    unread: Sequence[str]
    """Tasks that could not be judged: not succeeded, of other work, or nothing was found in their logs."""
    no_peers: int
    """How many of those that could be judge none to come: the rule did not look at them while they ran."""

    @property
    def saved_s(self) -> float:
        return sum(each.saved_s for each in self.stopped)

    @property
    def loses_best(self) -> bool:
        return any(each.task == self.best for each in self.stopped)


@dataclass(frozen=True, slots=True)
class _Read:
    past: PastRun
    final: float
    gpus: int


def replay(tasks: Iterable[Task], records: Records) -> list[Replay]:
    """By entry and rule, of tasks that have `prune`. Reads their logs; main thread only."""
    groups: dict[tuple[str, Prune], list[Task]] = {}
    for task in tasks:
        if task.spec.extras.prune is not None:
            groups.setdefault((task.spec.entry, task.spec.extras.prune), []).append(task)
    return [_of_group(entry, prune, members, records) for (entry, prune), members in groups.items()]


def _of_group(entry: str, prune: Prune, tasks: Sequence[Task], records: Records) -> Replay:
    read = {task.name: found for task in tasks if (found := _read(task, prune, records)) is not None}
    lost = replayed(prune, [each.past for each in read.values()])
    best = (max if prune.is_max else min)(read, key=lambda name: read[name].final, default="")
    return Replay(
        entry,
        prune,
        len(read),
        [_stopped(prune, read[name], *lost[name]) for name in read if name in lost],
        sum(each.past.duration_s * max(1, each.gpus) for each in read.values()),
        best,
        read[best].final if best else math.nan,
        [task.name for task in tasks if task.name not in read],
        sum(task.name in read and not _is_peer(task, prune) for task in tasks),
    )


def _is_peer(task: Task, prune: Prune) -> bool:
    return any(is_known(task, prune.metric, point, task.spec.fingerprint) for point in prune.at)


def _stopped(prune: Prune, read: _Read, point: float, value: float | None, lost: Lost) -> Stopped:
    saved_s = (1 - point) * read.past.duration_s * max(1, read.gpus)
    return Stopped(read.past.task, point, lost.words(prune, point, value), saved_s)


def _read(task: Task, prune: Prune, records: Records) -> _Read | None:
    """None: it cannot be judged. Of a metric in a file nobody knows what it was on the way. One that went on from its
    checkpoint is taken as if it had never stopped."""
    ended = next((each for each in reversed(task.ended) if each.outcome.ok), None)
    in_file = any(metric.name == prune.name and metric.file for metric in task.spec.extras.metrics)
    if ended is None or in_file or not isinstance(task.phase, (Succeeded, Cached)) or is_of_other_work(task):
        return None
    duration_s = ended.duration_s + records.before(task, "duration_s")
    began = ended.wall - duration_s
    known: Mapping[str, Sequence[object]] = {}
    points: dict[float, float | None] = {}
    for paths, _ in reversed(records.pieces(task)):
        order = Followed(1, RunningAttempt("", task.spec, paths, began), task, task.spec).request(())
        follower = Follower({**order, "known": known}, lambda _number, _what: None, LOG_BYTES)
        follower.look(final=True)
        known = follower.known
        for _, point, value in follower.points:
            points.setdefault(point, value)
    final = _final(known, prune)
    if not points or final is None:
        return None
    return _Read(PastRun(task.name, began, duration_s, tuple(sorted(points.items()))), final, len(ended.gpus))


def _final(known: Mapping[str, Sequence[object]], prune: Prune) -> float | None:
    best = known.get(prune.name, (None, None))[1]
    return best if isinstance(best, float) else None
