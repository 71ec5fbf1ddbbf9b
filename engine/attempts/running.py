"""Attempts that run: what they were started with, what their logs tell, and what the helper is to look for in these."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.deck import Deck, Task
from ..core.spec import Metric, Prune, TaskSpec
from ..logs.files import AttemptPaths, LogFolder
from ..logs.follow import METRIC, PROGRESS, WATCH
from ..text import command_text
from .environment import Box
from .progress import Progress
from .secrets import masked_command
from .start_plan import StartPlan


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that has begun, under this engine or an earlier one."""

    token: str
    spec: TaskSpec
    """What it was started as."""
    paths: AttemptPaths
    started_wall: float
    oom_kills: int = 0
    """The kernel's count of kills for want of memory when it started."""
    plan: StartPlan | None = None
    """None: an earlier engine started it, and attempt-N.json tells."""
    before: tuple[str, ...] = ()
    """Where curves of earlier attempts are kept, from the newest of which it may go on."""


class RunningAttempts:
    """By token, kept until their end is written. All methods on the loop's thread."""

    def __init__(self, deck: Deck, logs: LogFolder, box: Box) -> None:
        self._deck = deck
        self._logs = logs
        self._box = box
        self._running: dict[str, RunningAttempt] = {}
        self._resumed: set[str] = set()
        """Tasks whose newest attempt went on from an earlier one."""

    def add(self, task: Task, plan: StartPlan) -> None:
        """A wrapper exists, or a cluster was asked for it."""
        (self._resumed.add if plan.resumed else self._resumed.discard)(task.name)
        token, before = plan.launch.token, self._before(task, plan.launch.attempt) if plan.resumed else ()
        self._running[token] = RunningAttempt(
            token, task.begun_spec, plan.paths, plan.started_wall, self._box.oom_kills(), plan, before
        )

    def of(self, token: str, task: Task, number: int) -> RunningAttempt:
        """What is known of an attempt, also of one that an earlier engine started."""
        if token not in self._running:
            current, spec = task.attempt(), task.begun_spec
            wall = current.wall if current is not None else 0.0
            paths = self._logs.paths(task.name, number, spec.policy.merge_stderr)
            before = self._before(task, number) if spec.resume is not None else ()
            self._running[token] = RunningAttempt(token, spec, paths, wall, self._box.oom_kills(), before=before)
        return self._running[token]

    def _before(self, task: Task, number: int) -> tuple[str, ...]:
        earlier = [each.number for each in reversed(task.ended) if each.number < number]
        return tuple(self.paths(task.name, each).curves for each in earlier)

    def pop(self, token: str) -> RunningAttempt | None:
        """Forget an attempt; None: nobody has asked for it since an earlier engine started it."""
        return self._running.pop(token, None)

    def resumed(self, task: str) -> bool:
        """Whether a task's newest attempt went on from an earlier one; False where an earlier engine started it."""
        return task in self._resumed

    def command(self, token: str) -> tuple[str, bool]:
        """What an attempt executes, and whether it resumes an earlier one; ("", False) when it is over already."""
        running = self._running.get(token)
        if running is None or running.plan is None:
            return "", False
        return shlex.join(masked_command(running.plan.shown)), running.plan.resumed

    def paths(self, task: str, number: int) -> AttemptPaths:
        """Where the logs of any attempt are, as the task is now."""
        known = self._deck.by_name.get(task)
        return self._logs.paths(task, number, known is not None and known.spec.policy.merge_stderr)


@dataclass(slots=True, eq=False)
class Followed:
    """One attempt whose logs are followed."""

    id: int
    """What the helper calls it."""
    attempt: RunningAttempt
    task: Task
    spec: TaskSpec
    """As it is followed: an edit of the file may look for something else."""
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
    done: Callable[[Progress], None] | None = None
    """Set once it has ended: told what its logs say in the end."""
    asked_at: float = 0.0
    """Since when that is awaited."""

    @property
    def token(self) -> str:
        return self.attempt.token

    def progress(self, now: float) -> Progress:
        """A picture of it. *now*: CLOCK_BOOTTIME."""
        eta_s = None if self.ends_at is None else max(0.0, self.ends_at - now)
        return Progress(self.fraction, eta_s, dict(self.metrics), self.line, dict(self.best), tuple(self.curve))

    def request(self, off: Collection[tuple[str, str]]) -> dict[str, Any]:
        """What the helper needs to follow it. *off*: (task, name) of patterns that are not to be used."""
        extras, paths = self.spec.extras, self.attempt.paths
        watch, progress = extras.watch, extras.progress
        without = {name for task, name in off if task == self.task.name}
        if "progress" in without:
            progress = None
        pattern = watch.pattern if watch is not None and not self.hit and "watch" not in without else ""
        return {
            "do": "follow",
            "id": self.id,
            "token": self.token,
            "out": paths.out,
            "err": paths.err,
            "started_wall": self.attempt.started_wall,
            "command": command_text(self.spec.work.command),
            "progress": progress.regex if progress is not None else "",
            "total": progress.total if progress is not None else None,
            "metrics": [_metric(metric, without) for metric in extras.metrics],
            "silent_s": watch.silent_s if watch is not None else None,
            "was_silent": self.silent,
            "most_bytes": watch.log_size_mib << 20 if watch is not None and watch.log_size_mib is not None else None,
            "was_large": self.large,
            "pattern": pattern,
            "prune": _points(extras.prune),
            "kept": paths.curves,
            "json": paths.json,
            "resumed": None if self.attempt.plan is None else self.attempt.plan.resumed,
            "before": self.attempt.before,
            "known": {name: [last, self.best.get(name)] for name, last in self.metrics.items()},
        }

    def pattern_name(self, what: int) -> str:
        """What users call a pattern that the helper was busy with; "" for none."""
        if what >= METRIC:
            place, metrics = what - METRIC, self.spec.extras.metrics
            return f"metric {metrics[place].name}" if place < len(metrics) else ""
        return {PROGRESS: "progress", WATCH: "watch"}.get(what, "")


def _points(prune: Prune | None) -> dict[str, Any] | None:
    if prune is None:
        return None
    return {"metric": prune.metric, "name": prune.name, "by": "max" if prune.is_max else "min", "at": prune.at}


def _metric(metric: Metric, without: Collection[str]) -> dict[str, Any]:
    return {
        "name": metric.name,
        "regex": "" if f"metric {metric.name}" in without else metric.regex,
        "file": metric.file,
        "key": metric.key,
        "best": metric.best,
    }
