"""What finished attempts came to: params and metrics of tasks, from attempt-N.json, else from their logs and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from ..core.deck import Task
from ..core.phases import NAMES, Cached, Succeeded
from ..core.spec import Metric
from ..logs.files import AttemptPaths, LogFolder
from ..logs.follow import HungError, limited_cpu
from ..logs.metrics import Values, documents, finder, from_text, numbers_at
from ..logs.record import read_record

How = Literal["max", "min", "last"]

LOG_BYTES = 64 << 20
"""Of longer logs the end is read."""
PATTERN_CPU_S = 10.0
"""For one pattern over one log."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A metric of the table."""

    name: str
    how: How | None
    """None: as the task file says."""

    def way(self, known: Metric | None) -> How:
        return self.how or (known.best if known is not None else "last")


@dataclass(frozen=True, slots=True)
class Result:
    """One task of the table."""

    task: str
    entry: str
    params: Mapping[str, str]
    state: str
    done: bool
    values: Mapping[str, float]
    """By metric; missing: it has none."""


class Records:
    """attempt-N.json of tasks, by the newest attempt that succeeded, else the newest; each read once."""

    def __init__(self, logs: LogFolder) -> None:
        self._logs = logs
        self._records: dict[str, tuple[int, dict[str, Any]]] = {}

    def of(self, task: Task) -> dict[str, Any]:
        """{} without one."""
        return self._found(task)[1]

    def attempt(self, task: Task) -> int:
        """Its number, 0 where the task was never attempted."""
        return self._found(task)[0]

    def scores(self, task: Task) -> dict[str, dict[str, float]]:
        """By metric: "last" and "best"."""
        metrics = _table(_table(self.of(task).get("end")).get("metrics"))
        return {name: from_text(score) for name, score in metrics.items()}

    def paths(self, task: Task) -> AttemptPaths:
        return self._logs.paths(task.name, self.attempt(task), task.spec.policy.merge_stderr)

    def _found(self, task: Task) -> tuple[int, dict[str, Any]]:
        found = self._records.get(task.name)
        if found is None:
            number = self._number(task)
            path = self._logs.paths(task.name, number, task.spec.policy.merge_stderr).json
            found = self._records[task.name] = (number, read_record(path) if number else {})
        return found

    def _number(self, task: Task) -> int:
        succeeded = [end.number for end in task.ended if end.outcome.ok]
        try:
            return succeeded[-1] if succeeded else task.attempts or self._logs.highest(task.name)
        except OSError:
            return 0


def results_of(records: Records, tasks: Iterable[Task], asked: Sequence[Asked]) -> list[Result]:
    """A result for each task. Reads logs and metrics files where attempt-N.json does not tell."""
    found: list[Result] = []
    for task in tasks:
        done = isinstance(task.phase, (Succeeded, Cached))
        values = _values(records, task, asked)
        found.append(Result(task.name, task.spec.entry, task.spec.params, NAMES[type(task.phase)], done, values))
    return found


def metrics_of(records: Records, tasks: Sequence[Task]) -> list[str]:
    """Every metric that the tasks have in the file or have reported, in order."""
    names = dict.fromkeys(metric.name for task in tasks for metric in task.spec.extras.metrics)
    for task in tasks:
        names.update(dict.fromkeys(records.scores(task)))
    return list(names)


def _values(records: Records, task: Task, asked: Sequence[Asked]) -> dict[str, float]:
    scores = records.scores(task)
    declared = {metric.name: metric for metric in task.spec.extras.metrics}
    values: dict[str, float] = {}
    for one in asked:
        metric, way = declared.get(one.name), one.way(declared.get(one.name))
        value = _kept(scores.get(one.name), metric, way)
        if value is None and metric is not None:
            value = _read(records, task, metric, way)
        if value is None:
            value = scores.get(one.name, {}).get("last")
        if value is not None:
            values[one.name] = value
    return values


def _kept(score: Mapping[str, float] | None, metric: Metric | None, way: How) -> float | None:
    """What attempt-N.json has, if it is what is asked for."""
    if score is None:
        return None
    if way == "last":
        return score.get("last")
    return score.get("best") if metric is not None and metric.best == way else None


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _read(records: Records, task: Task, metric: Metric, way: How) -> float | None:
    """From the metrics file, or from the logs of the attempt, which may still run."""
    number = records.attempt(task)
    if not number and not isinstance(task.phase, Cached):
        return None  # what lies there is not this task's
    values = Values(way)
    if metric.file:
        for value in numbers_at(metric.key, documents(_tail(metric.file))):
            values.take(value)
    elif number:
        paths, record = records.paths(task), records.of(task)
        for file in dict.fromkeys((str(record.get("err") or paths.err), str(record.get("log") or paths.out))):
            _search(_tail(file), metric, values)
    return values.last if way == "last" or values.best is None else values.best


def _search(raw: bytes, metric: Metric, values: Values) -> None:
    find = finder(metric.regex)
    try:
        with limited_cpu(PATTERN_CPU_S):
            for line in raw.decode("utf-8", "replace").replace("\r", "\n").split("\n"):
                for value in find(line[:4096]):
                    values.take(value)
    except HungError:
        return


def _tail(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            return file.read(LOG_BYTES)
    except OSError:
        return b""
