"""What finished attempts came to: params and metrics of tasks, from attempt-N.json, else from their logs and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, cast

from ..attempts.record import given_in, is_simulated, otherwise_text, read_record
from ..core.deck import Deck, Task
from ..core.phases import NAMES, Cached, Succeeded
from ..core.readiness import done_before
from ..core.recorded import AttemptKey
from ..core.spec import Metric
from ..errors import UsageError
from ..logs.curves import guesses
from ..logs.files import AttemptPaths, LogFolder
from ..logs.follow import HungError, limited_cpu
from ..logs.log_file import read_part
from ..logs.marks import said_in
from ..logs.metrics import Values, documents, finder, from_text, numbers_at
from ..taskfile.problems import did_you_mean

How = Literal["max", "min", "last"]

LOG_BYTES = 64 << 20
"""Of longer logs the end is read."""
PATTERN_CPU_S = 10.0
"""For one pattern over one log."""
MEASURED = ("energy_wh", "mean_power_w", "peak_mib", "mean_mib", "mean_util_percent", "duration_s")
"""What attempt-N.json tells of any attempt: can be asked for as metrics are, unless a metric has that name."""
_SUMMED = ("energy_wh", "duration_s")
"""Of these an attempt that went on from another one has what both took."""
UNREAD_S = 3.0
"""Of an attempt that ends sooner the engine may have read nothing but declared metrics."""
_MARKED_BYTES = 256 << 10
_SEEN_BYTES = 64 << 10
"""Of the log of such an attempt."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A metric of the table."""

    name: str
    how: How | None
    """None: as the task file says."""

    @classmethod
    def of(cls, word: str) -> Asked:
        """ "acc", "acc:max". Raises UsageError."""
        name, colon, how = word.rpartition(":")
        if not colon:
            return cls(word, None)
        if how not in ("max", "min", "last"):
            raise UsageError(f"--metric {word}: after the colon comes max, min or last")
        return cls(name, how)

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
    given: frozenset[str] = frozenset()
    """Params that `retry --set` gave it."""
    otherwise: str = ""
    """Those, and variables that `retry --env` gave it: "bs=32 X=1"."""
    as_file: bool = True
    """It ran what the file says now."""
    counts: bool = True
    """In means; of one that does not its setting is told, and what became of it."""


_DONE = (NAMES[Succeeded], NAMES[Cached])


class Records:
    """attempt-N.json of tasks, by the newest attempt that succeeded, else the newest; each read once. Of work that was
    done under another name it is the attempt that did it."""

    def __init__(self, logs: LogFolder, deck: Deck, variables: Mapping[str, str]) -> None:
        """*variables*: [vars] of the file, which those have that ran what it says, with no other value by a retry."""
        self.variables = variables
        self._logs = logs
        self._deck = deck
        self._records: dict[str, tuple[AttemptKey, dict[str, Any]]] = {}
        self._scores: dict[str, dict[str, dict[str, float]]] = {}

    def of(self, task: Task) -> dict[str, Any]:
        """{} without one."""
        return self._found(task)[1]

    def lasts(self, task: Task) -> bool:
        """Its attempt's end has not been written down."""
        return not self.of(task).get("end")

    def attempt(self, task: Task) -> int:
        """Its number, 0 where the task was never attempted."""
        return self._found(task)[0][1]

    def done_as(self, task: Task) -> str:
        """The name under which its work was done; its own where it was not another one."""
        return self._found(task)[0][0]

    def scores(self, task: Task) -> dict[str, dict[str, float]]:
        """By metric: "last" and "best"."""
        if task.name not in self._scores:
            end = _table(self.of(task).get("end"))
            told = self._told(task)
            # Its end may not be written yet: rows tell of it first.
            unread = self.lasts(task) or (not told and float(end.get("duration_s") or 0.0) < UNREAD_S)
            if unread and self.attempt(task) > 0:
                told = self._best_of(task, told, self._marked(task))
            self._scores[task.name] = told
        return self._scores[task.name]

    def measured(self, task: Task, name: str) -> float | None:
        """One of MEASURED, of an attempt that is over."""
        values = _numbers(self._ends(task), name) if name in MEASURED else []
        return (sum(values) if name in _SUMMED else values[0]) if values else None

    def before(self, task: Task, name: str) -> float:
        """The sum of one of MEASURED over the attempts that it went on from."""
        return sum(_numbers(self._ends(task)[1:], name))

    def given(self, task: Task) -> dict[str, str]:
        """The values that it ran with in the place of the file's (`retry --set`)."""
        return given_in(self.of(task))

    def is_simulated(self, task: Task) -> bool:
        """Whether it ran on simulated GPUs: what was measured of them is made up."""
        return is_simulated(self.of(task))

    def _told(self, task: Task) -> dict[str, dict[str, float]]:
        """What attempt-N.json says of each metric; the best is that of all attempts that it went on from."""
        found: dict[str, dict[str, float]] = {}
        for end in reversed(self._ends(task)):
            now = {name: from_text(score) for name, score in _table(end.get("metrics")).items()}
            found = self._best_of(task, found, now)
        return found

    def _best_of(
        self, task: Task, before: Mapping[str, dict[str, float]], now: Mapping[str, dict[str, float]]
    ) -> dict[str, dict[str, float]]:
        """What *now* says, each metric's best that of both."""
        better = {metric.name: {"max": max, "min": min}.get(metric.best) for metric in task.spec.extras.metrics}
        found = dict(before)
        for name, score in now.items():
            had, choose = found.get(name, {}), better.get(name)
            best = {"best": choose(had["best"], score["best"])} if choose and "best" in had and "best" in score else {}
            found[name] = {**had, **score, **best}
        return found

    def pieces(self, task: Task) -> list[tuple[AttemptPaths, dict[str, Any]]]:
        """Where the files of its attempt are and what attempt-N.json says, and before it those that it went on from,
        newest first."""
        (name, number), record = self._found(task)
        found = [(self.paths(task), record)]
        while number > 1 and record.get("resumes") == number - 1:
            number -= 1
            paths = self._paths(task, (name, number))
            record = read_record(paths.json) or {"resumes": number - 1}  # one that was taken back has left none
            found.append((paths, record))
        return found

    def _ends(self, task: Task) -> list[dict[str, Any]]:
        return [_table(record.get("end")) for _, record in self.pieces(task)]

    def _marked(self, task: Task) -> dict[str, dict[str, float]]:
        """What `::gpudeck` lines say."""
        found: dict[str, dict[str, float]] = {}
        for path in reversed(self.log_paths(task)):
            raw = read_part(path, -_MARKED_BYTES, _MARKED_BYTES)
            for line in raw.decode("utf-8", "replace").splitlines() if b"::gpudeck " in raw else ():
                found.update({name: {"last": value} for name, value in said_in(line)[1].items()})
        return found

    def log_paths(self, task: Task) -> list[str]:
        """Of what it wrote to stdout and to stderr, once where that is one file."""
        paths, record = self.paths(task), self.of(task)
        return list(dict.fromkeys((str(record.get("log") or paths.out), str(record.get("err") or paths.err))))

    def seen(self, task: Task) -> list[str]:
        """Metrics that the end of its logs has, by names that are usual in training."""
        found: dict[str, None] = {}
        for path in self.log_paths(task):
            lines = read_part(path, -_SEEN_BYTES, _SEEN_BYTES).decode("utf-8", "replace").splitlines()
            for before, line in pairwise(["", *lines]):
                said = "::gpudeck " in line
                found.update(dict.fromkeys(name for name, _ in guesses(line, before) if not said))
        return list(found)

    def paths(self, task: Task) -> AttemptPaths:
        return self._paths(task, self._found(task)[0])

    def _paths(self, task: Task, attempt: AttemptKey) -> AttemptPaths:
        return self._logs.paths(*attempt, task.spec.policy.merge_stderr)

    def _found(self, task: Task) -> tuple[AttemptKey, dict[str, Any]]:
        found = self._records.get(task.name)
        if found is None:
            attempt = self._attempt(task)
            told = read_record(self._paths(task, attempt).json) if attempt[1] else {}
            found = self._records[task.name] = (attempt, told)
        return found

    def state(self, task: Task) -> str:
        """Its state; of one that the next run will find done under another name: "cached"."""
        return NAMES[Cached if done_before(self._deck, task) else type(task.phase)]

    def _attempt(self, task: Task) -> AttemptKey:
        if task.made_by[1]:
            return task.made_by
        if before := done_before(self._deck, task):
            return before.task, before.attempt
        try:
            return task.name, task.attempts or self._logs.highest(task.name)
        except OSError:
            return task.name, 0


def results_of(records: Records, tasks: Iterable[Task], asked: Sequence[Asked]) -> list[Result]:
    """A result for each task. Reads logs and metrics files where attempt-N.json does not tell."""
    tasks, found = list(tasks), list[Result]()
    retried = {name for task in tasks for name in records.given(task)}
    of_file = {name: value for name, value in records.variables.items() if name in retried}
    for task in tasks:
        values, given, state = _values(records, task, asked), records.given(task), records.state(task)
        params, done = {**task.spec.params, **given}, state in _DONE
        record = records.of(task)
        as_file = record.get("fingerprint", task.spec.fingerprint) == task.spec.fingerprint
        if as_file:  # else nobody knows which values [vars] had then
            params |= {name: value for name, value in of_file.items() if name not in params}
        otherwise = otherwise_text(record)
        found.append(
            Result(task.name, task.spec.entry, params, state, done, values, frozenset(given), otherwise, as_file)
        )
    return found


def metrics_of(records: Records, tasks: Sequence[Task]) -> list[str]:
    """Every metric that the tasks have in the file or have reported, in order."""
    names = dict.fromkeys(metric.name for task in tasks for metric in task.spec.extras.metrics)
    for task in tasks:
        names.update(dict.fromkeys(records.scores(task)))
    return list(names)


HOW_TO_NAME = (
    "name some in the task file, metrics.acc = { regex = 'acc=([0-9.]+)', best = \"max\" }, or print ::gpudeck acc=0.91"
)


def check_asked(asked: Iterable[Asked], known: Sequence[str]) -> None:
    """Raises UsageError for a metric that no task has. *known*: those that tasks have."""
    for one in asked:
        if one.name not in known and one.name not in MEASURED:
            there_are = f"there are {', '.join(known)}" if known else f"none has reported any: {HOW_TO_NAME}"
            meant = did_you_mean(one.name, [*known, *MEASURED])
            raise UsageError("; ".join(filter(None, (f"no task has the metric {one.name}: {there_are}", meant))))


def _values(records: Records, task: Task, asked: Sequence[Asked]) -> dict[str, float]:
    scores = records.scores(task)
    declared = {metric.name: metric for metric in task.spec.extras.metrics}
    values: dict[str, float] = {}
    for one in asked:
        metric, way = declared.get(one.name), one.way(declared.get(one.name))
        value = _kept(scores.get(one.name), metric, way)
        if metric is not None and (value is None or records.lasts(task)):
            value = _better(value, _read(records, task, metric, way), way)
        if value is None:
            value = scores.get(one.name, {}).get("last")
        if value is None and metric is None:
            value = records.measured(task, one.name)
        if value is not None:
            values[one.name] = value
    return values


def _better(before: float | None, now: float | None, way: How) -> float | None:
    """*before*: of the attempts that one which still runs went on from."""
    if before is None or now is None:
        return before if now is None else now
    return now if way == "last" else {"max": max, "min": min}[way](before, now)


def _kept(score: Mapping[str, float] | None, metric: Metric | None, way: How) -> float | None:
    """What attempt-N.json has, if it is what is asked for."""
    if score is None:
        return None
    if way == "last":
        return score.get("last")
    return score.get("best") if metric is not None and metric.best == way else None


def _numbers(ends: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    return [float(value) for end in ends if isinstance(value := end.get(name), (int, float))]


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _read(records: Records, task: Task, metric: Metric, way: How) -> float | None:
    """From the metrics file, or from the logs of the attempt, which may still run."""
    number = records.attempt(task)
    if not number and not isinstance(task.phase, Cached):
        return None  # what lies there is not this task's
    values = Values(way)
    if metric.file:
        for value in numbers_at(metric.key, documents(read_part(metric.file, -LOG_BYTES, LOG_BYTES))):
            values.take(value)
    elif number:
        for file in reversed(records.log_paths(task)):
            _search(read_part(file, -LOG_BYTES, LOG_BYTES), metric, values)
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
