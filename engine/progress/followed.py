"""Attempts whose logs are followed: what is known of each, and what the helper is to look for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.deck import Task
from ..core.spec import Metric, TaskSpec
from ..logs.files import AttemptPaths
from ..logs.follow import METRIC, PROGRESS, WATCH
from .reported import Reported, Seen


@dataclass(slots=True, eq=False)
class Followed:
    """One attempt."""

    id: int
    """What the helper calls it."""
    token: str
    task: Task
    spec: TaskSpec
    paths: AttemptPaths
    started_wall: float
    fraction: float | None = None
    ends_at: float | None = None
    """When it will be over, by CLOCK_BOOTTIME."""
    told_end: float | None = None
    """What the core was told of that."""
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    best: dict[str, float] = field(default_factory=dict[str, float])
    curve: Sequence[float] = ()
    line: str = ""
    silent: bool = False
    """Nothing was written for as long as its watch rule allows."""
    large: bool = False
    """Its logs have grown beyond what its watch rule allows."""
    hit: str = ""
    """The line in which its watch pattern has been found."""
    judge: Callable[[str], None] | None = None
    """Set once its leader has ended: told that line, or "" where there is none."""
    rest_until: float = 0.0
    """Its files did not answer: they are let alone until then."""
    gone_at: float = 0.0
    """Since when it holds no slots any more."""
    done: Callable[[Seen], None] | None = None
    """Set once it has ended: told what its logs say in the end."""
    asked_at: float = 0.0
    """Since when that is awaited."""

    @property
    def reported(self) -> Reported:
        """Its metrics as they are now."""
        return Reported(dict(self.metrics), dict(self.best), tuple(self.curve))

    def seen(self, now: float) -> Seen:
        """A picture of it. *now*: CLOCK_BOOTTIME."""
        eta_s = None if self.ends_at is None else max(0.0, self.ends_at - now)
        return Seen(self.fraction, eta_s, dict(self.metrics), self.line, dict(self.best), self.curve)


class Roll:
    """The attempts that are followed, by the token of the attempt, and by the number that the helper knows it by."""

    def __init__(self) -> None:
        self._by_token: dict[str, Followed] = {}
        self._by_id: dict[int, Followed] = {}
        self._next_id = 1

    def __len__(self) -> int:
        return len(self._by_token)

    def __iter__(self) -> Iterator[Followed]:
        """As they are now: some may be forgotten meanwhile."""
        return iter(list(self._by_token.values()))

    def of(self, token: str) -> Followed | None:
        return self._by_token.get(token)

    def numbered(self, number: int) -> Followed | None:
        return self._by_id.get(number)

    def add(self, token: str, task: Task, spec: TaskSpec, paths: AttemptPaths, wall: float) -> Followed:
        """*wall*: its start, seconds since the epoch."""
        found = Followed(self._next_id, token, task, spec, paths, wall)
        self._next_id += 1
        self._by_token[token] = self._by_id[found.id] = found
        return found

    def forget(self, token: str) -> None:
        """One that is not there is ignored."""
        found = self._by_token.pop(token, None)
        if found is not None:
            self._by_id.pop(found.id, None)

    def ending(self) -> list[Followed]:
        """Those that have ended, whose last look is awaited."""
        return [found for found in self if found.done is not None]


def request_of(found: Followed, off: Collection[tuple[str, str]]) -> dict[str, Any]:
    """What the helper needs to follow an attempt. *off*: (task, name) of patterns that are not to be used."""
    extras = found.spec.extras
    watch, progress = extras.watch, extras.progress
    without = {name for task, name in off if task == found.task.name}
    if "progress" in without:
        progress = None
    pattern = watch.pattern if watch is not None and not found.hit and "watch" not in without else ""
    return {
        "do": "follow",
        "id": found.id,
        "token": found.token,
        "out": found.paths.out,
        "err": found.paths.err,
        "started_wall": found.started_wall,
        "command": _command(found.spec),
        "progress": progress.regex if progress is not None else "",
        "total": progress.total if progress is not None else None,
        "metrics": [_metric(metric, without) for metric in extras.metrics],
        "silent_s": watch.silent_s if watch is not None else None,
        "was_silent": found.silent,
        "most_bytes": watch.log_size_mib << 20 if watch is not None and watch.log_size_mib is not None else None,
        "was_large": found.large,
        "pattern": pattern,
        "known": {
            name: [last, found.best.get(name), () if place else found.curve]
            for place, (name, last) in enumerate(found.metrics.items())
        },
    }


def name_of(what: int, metrics: Sequence[Metric]) -> str:
    """What users call a pattern that the helper was busy with; "" for none."""
    if what >= METRIC:
        place = what - METRIC
        return f"metric {metrics[place].name}" if place < len(metrics) else ""
    return {PROGRESS: "progress", WATCH: "watch"}.get(what, "")


def _metric(metric: Metric, without: Collection[str]) -> dict[str, Any]:
    return {
        "name": metric.name,
        "regex": "" if f"metric {metric.name}" in without else metric.regex,
        "file": metric.file,
        "key": metric.key,
        "best": metric.best,
    }


def _command(spec: TaskSpec) -> str:
    command = spec.work.command
    return command if isinstance(command, str) else shlex.join(command)
