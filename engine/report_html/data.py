"""What a report tells, as plain data. Times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..attempts.gpu_history import GpuHistory
from ..results.overlay import Drawn
from ..results.table import Table


@dataclass(frozen=True, slots=True)
class AttemptPart:
    """One execution of a task."""

    task: str
    number: int
    run: int
    start: float
    end: float | None
    """None: it lasts."""
    kind: str
    """How it ended in one word: ok, exit, oom, …; empty: it lasts."""
    reason: str
    gpus: tuple[int, ...]
    energy_wh: float | None = None
    mean_power_w: float | None = None
    mean_util_percent: float | None = None
    peak_mib: float | None = None
    history: GpuHistory | None = None

    @property
    def named(self) -> str:
        return f"{self.task} attempt {self.number}"


@dataclass(frozen=True, slots=True)
class RunPart:
    """One run of the deck."""

    number: int
    start: float
    end: float
    lasts: bool
    attempts: Sequence[AttemptPart]
    gpus: Sequence[int]
    """Those of the deck, as far as they are known: those that attempts ran on."""

    @property
    def wall_s(self) -> float:
        return max(0.0, self.end - self.start)

    @property
    def task_s(self) -> float:
        return sum(max(0.0, (attempt.end or self.end) - attempt.start) for attempt in self.attempts)

    @property
    def speed_up(self) -> float | None:
        return self.task_s / self.wall_s if self.wall_s > 0 and self.attempts else None

    @property
    def energy_wh(self) -> float | None:
        known = [attempt.energy_wh for attempt in self.attempts if attempt.energy_wh is not None]
        return sum(known) if known else None

    def busy_percent(self) -> dict[int, float]:
        """The share of the time in which one of our attempts was on a GPU, by index."""
        if self.wall_s <= 0:
            return {}
        return {gpu: 100 * self._busy_s(gpu) / self.wall_s for gpu in self.gpus}

    def _busy_s(self, gpu: int) -> float:
        spans = sorted((one.start, one.end or self.end) for one in self.attempts if gpu in one.gpus)
        total, until = 0.0, self.start
        for start, end in spans:
            total += max(0.0, min(end, self.end) - max(start, until))
            until = max(until, end)
        return total


@dataclass(frozen=True, slots=True)
class TaskPart:
    """A row of the table of tasks. Figures are of its newest attempt that succeeded, else of its newest."""

    name: str
    state: str
    flags: tuple[str, ...]
    reason: str
    duration_s: float | None
    attempts: int
    gpus: tuple[int, ...]
    peak_mib: float | None
    mean_util_percent: float | None
    energy_wh: float | None
    metrics: Mapping[str, float]
    """As `gpudeck table` has them."""
    last: Mapping[str, float]
    """What was reported last, where that is another value."""


@dataclass(frozen=True, slots=True)
class FailurePart:
    """Failures that are alike, told by the newest."""

    tasks: Sequence[str]
    """The newest first."""
    attempt: int
    reason: str
    hint: str
    log: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class MetricsPart:
    """A table of metrics by params."""

    title: str
    table: Table


@dataclass(frozen=True, slots=True)
class CurvesPart:
    """What one metric has been: a line for each task, or for the mean over its seeds."""

    metric: str
    axis: str
    lines: Sequence[Drawn]
    left_out: int
    """Lines that there was no room for, or that count something else."""
    of: str = ""
    """Whose lines they are, where others have a picture of their own."""


@dataclass(frozen=True, slots=True)
class Report:
    deck: str
    file: str
    host: str
    commits: Sequence[str]
    """As people write them: "1a2b3c4d5e6f on main, with changes"."""
    made: float
    version: str
    under_way: bool
    """A run is unfinished, and an engine runs it."""
    warnings: Sequence[str]
    counts: Mapping[str, int]
    """Tasks by state."""
    runs: Sequence[RunPart]
    """The newest first; those without an attempt are left out."""
    tasks: Sequence[TaskPart]
    metrics: Sequence[str]
    failures: Sequence[FailurePart]
    failed: int
    """Failed tasks, of which more than `failures` tells of, perhaps."""
    simulated: bool = False
    """Its GPUs are: what is told of them is not real."""
    tables: Sequence[MetricsPart] = field(default_factory=tuple[MetricsPart, ...])
    curves: Sequence[CurvesPart] = field(default_factory=tuple[CurvesPart, ...])

    @property
    def energy_wh(self) -> float | None:
        known = [run.energy_wh for run in self.runs if run.energy_wh is not None]
        return sum(known) if known else None
