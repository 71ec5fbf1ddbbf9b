"""Every attempt that a deck knows of, with what its attempt-N.json and attempt-N.gpu.json tell."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ... import __version__
from ..adapters import host
from ..attempts.gpu_history import GpuHistory, read_history
from ..attempts.record import RecordedGpu, git_text, otherwise_text
from ..core.deck import Task
from ..core.events import RunEnded, RunStarted
from ..core.explain import Explainer
from ..core.flags import flags
from ..core.gpu_names import indices
from ..core.phases import NAMES, Attempt, Blocked, Ended, Failed
from ..decks.offline import OfflineDeck
from ..errors import UsageError
from ..logs.curves import read_kept
from ..logs.described import describe
from ..logs.digest import blamed_log, digest_of
from ..logs.files import AttemptPaths
from ..logs.ranks import tails
from ..protocol.alike import Alike, groups_of
from ..results.overlay import REPEATS, Member, axes_of, drawn, grouped
from ..results.results import Asked, How, Records, Result, metrics_of, results_of
from ..results.table import Layout, tabulate, varying
from ..serve.offline import STANDING
from ..serve.pages import failure_of
from .data import AttemptPart, CurvesPart, FailurePart, MetricsPart, Report, RunPart, TaskPart

UNTOLD = "untold"
"""The kind of an attempt whose end is not in the journal."""


class _End(msgspec.Struct):
    peak_mib: float | None = None
    mean_util_percent: float | None = None
    mean_power_w: float | None = None
    energy_wh: float | None = None


class Told(msgspec.Struct):
    """What of an attempt-N.json a report shows: neither its command nor its environment, but what a retry has changed
    of that."""

    host: str = ""
    git: dict[str, Any] | None = None
    gpus: list[RecordedGpu] = []
    end: _End | None = None
    set: dict[str, str] = {}
    retried_env: dict[str, str | None] = {}


class Attempts:
    """Reads two small files for each attempt, once."""

    def __init__(self, offline: OfflineDeck) -> None:
        self._offline = offline
        self.told: dict[tuple[str, int], Told] = {}

    def all(self) -> Iterator[AttemptPart]:
        """Task by task in file order, those that the file no longer has last; oldest first."""
        deck = self._offline.deck
        for task in deck.tasks:
            yield from self._of(task)
        for name, ended in deck.past.ended.items():
            if name not in deck.by_name:
                yield from (self._ended(name, one) for one in ended)

    def _of(self, task: Task) -> Iterator[AttemptPart]:
        yield from (self._ended(task.name, ended) for ended in task.ended)
        attempt = task.attempt()
        if attempt is not None:
            told, history = self._read(task.name, attempt.number)
            offline = self._offline
            standing = "runs" if offline.holder is not None else offline.standing(attempt.token)
            runs = standing == "runs"
            yield AttemptPart(
                task.name,
                attempt.number,
                offline.deck.run.number,
                attempt.wall,
                None if runs else self._last_sign(task.name, attempt, history),
                "" if runs else UNTOLD,
                "runs" if runs else STANDING[standing],
                self._gpus(told, attempt.gpus),
                history=history,
                **_so_far(history, len(attempt.gpus)),
            )

    def _last_sign(self, name: str, attempt: Attempt, history: GpuHistory | None) -> float:
        """When an attempt of which no engine knows the end was last seen to live."""
        signs = [attempt.wall, attempt.wall + history.at_s[-1] if history is not None and history.at_s else 0.0]
        paths = self._offline.logs.paths(name, attempt.number, False)
        for path in (paths.out, paths.err):
            with contextlib.suppress(OSError):
                signs.append(os.stat(path).st_mtime)
        return max(signs)

    def _ended(self, name: str, ended: Ended) -> AttemptPart:
        told, history = self._read(name, ended.number)
        end = told.end or _End()
        return AttemptPart(
            name,
            ended.number,
            ended.run,
            ended.wall - ended.duration_s,
            ended.wall,
            ended.outcome.reason,
            "; ".join(filter(None, (describe(ended.outcome), _with(otherwise_text(msgspec.structs.asdict(told)))))),
            self._gpus(told, ended.gpus),
            end.energy_wh,
            end.mean_power_w,
            end.mean_util_percent,
            end.peak_mib or ended.peak_mib or None,
            history,
        )

    def _gpus(self, told: Told, uuids: tuple[str, ...]) -> tuple[int, ...]:
        if len(told.gpus) == len(uuids):
            return tuple(gpu.index for gpu in told.gpus)
        return indices(uuids, self._offline.index_of)

    def _read(self, name: str, number: int) -> tuple[Told, GpuHistory | None]:
        paths = self._offline.logs.paths(name, number, False)
        told = self.told[name, number] = _told(paths.json)
        return told, read_history(paths.gpu_history) if told.gpus else None


def _told(path: str) -> Told:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Told)
    except (OSError, msgspec.DecodeError):
        return Told()


def _so_far(history: GpuHistory | None, cards: int) -> Mapping[str, float | None]:
    """Of an attempt that lasts, as of when its history was last written."""
    if history is None:
        return {}
    drawn = [(joules, seconds) for joules, seconds in history.drawn.values() if seconds > 0]
    known = len(drawn) == cards
    return {
        "energy_wh": sum(joules for joules, _ in drawn) / 3600 if known else None,
        "mean_power_w": sum(joules / seconds for joules, seconds in drawn) if known else None,
        "mean_util_percent": history.util_sum / history.util_count if history.util_count else None,
        "peak_mib": history.peak_mib,
    }


MOST_FAILURES = 100
"""Kinds of them that are told of; of more the reason stands in the table only."""
_MOST_COLUMNS = 8
_MOST_LINES = 24
"""Of curves over each other."""
_MOST_PICTURES = 12
"""Of one metric."""


def gather(offline: OfflineDeck) -> Report:
    """Reads two small files for each attempt, and logs of failures."""
    deck, now = offline.deck, host.SystemClock().now().wall_s
    reader, records = Attempts(offline), Records(offline.logs, offline.deck, offline.file.vars)
    attempts = list(reader.all())
    names = metrics_of(records, deck.tasks)
    results = results_of(records, deck.tasks, [Asked(name, None) for name in names])
    failed = [task for task in deck.tasks if isinstance(task.phase, Failed)]
    runs = list(_runs(offline, attempts, now))
    return Report(
        deck=deck.settings.name,
        file=offline.file.path,
        host=_host(offline, reader.told),
        commits=_commits(attempts, reader.told),
        made=now,
        version=__version__,
        under_way=offline.holder is not None and offline.unfinished,
        warnings=offline.warnings,
        counts=Counter(NAMES[type(task.phase)] for task in deck.tasks),
        runs=runs,
        tasks=_tasks(offline, records, results, attempts),
        metrics=names,
        failures=_failures(offline, failed),
        failed=len(failed),
        simulated=isinstance(deck.settings.gpus, int),
        tables=list(_tables(results, _ways(deck.tasks, names))),
        curves=list(_curves([_member(records, task) for task in deck.tasks])),
    )


def _runs(offline: OfflineDeck, attempts: Iterable[AttemptPart], now: float) -> Iterator[RunPart]:
    began = {fact.run: fact.wall for fact in offline.facts if isinstance(fact, RunStarted)}
    ended = {fact.run: fact.wall for fact in offline.facts if isinstance(fact, RunEnded)}
    by_run: dict[int, list[AttemptPart]] = {}
    for attempt in attempts:
        by_run.setdefault(attempt.run, []).append(attempt)
    for number, members in sorted(by_run.items(), reverse=True):
        lasts = any(attempt.end is None for attempt in members)
        end = max([ended.get(number, 0.0), *(attempt.end or now for attempt in members)])
        start = min([began.get(number, now), *(attempt.start for attempt in members)])
        gpus = {index for attempt in members for index in attempt.gpus}
        gpus |= {gpu.index for gpu in offline.deck.gpus.values()}
        yield RunPart(number, start, end, lasts, members, sorted(gpus))


def _tasks(
    offline: OfflineDeck, records: Records, results: Sequence[Result], attempts: Iterable[AttemptPart]
) -> list[TaskPart]:
    by_task: dict[str, dict[int, AttemptPart]] = {}
    for attempt in attempts:
        by_task.setdefault(attempt.task, {})[attempt.number] = attempt
    explainer = Explainer(offline.deck, host.boottime_s())
    found: list[TaskPart] = []
    for task, result in zip(offline.deck.tasks, results, strict=True):
        mine = by_task.get(records.done_as(task), {})
        shown = mine.get(records.attempt(task)) or (mine[max(mine)] if mine else None)
        untold = shown is not None and shown.kind == UNTOLD
        took = None if shown is None or shown.end is None or untold else shown.end - shown.start
        energy_wh = None if shown is None else shown.energy_wh
        why = shown.reason if shown is not None and untold else _reason(task, explainer)
        last = {
            name: score["last"]
            for name, score in records.scores(task).items()
            if "last" in score and name in result.values and score["last"] != result.values[name]
        }
        found.append(
            TaskPart(
                name=task.name,
                state=result.state,
                flags=flags(offline.deck, task),
                reason="; ".join(filter(None, (why, _with(result.otherwise)))),
                duration_s=None if took is None else took + records.before(task, "duration_s"),
                attempts=task.attempts,
                gpus=shown.gpus if shown is not None else (),
                peak_mib=shown.peak_mib if shown is not None else None,
                mean_util_percent=shown.mean_util_percent if shown is not None else None,
                energy_wh=None if energy_wh is None else energy_wh + records.before(task, "energy_wh"),
                metrics=result.values,
                last=last,
            )
        )
    return found


def _with(otherwise: str) -> str:
    """What a retry has changed: `--set`, `--env`."""
    return f"with {otherwise}" if otherwise else ""


def _reason(task: Task, explainer: Explainer) -> str:
    if isinstance(task.phase, Blocked):
        return explainer.why(task)
    if isinstance(task.phase, Failed):
        return describe(task.phase.outcome)
    outcome = task.ended[-1].outcome if task.ended else None
    return "" if outcome is None or outcome.ok else describe(outcome)


def _failures(offline: OfflineDeck, failed: Iterable[Task]) -> list[FailurePart]:
    """Alike ones together, as the screen has them; of each kind the newest log."""

    def paths(name: str, number: int) -> AttemptPaths:
        return offline.logs.paths(name, number, offline.deck.by_name[name].spec.policy.merge_stderr)

    def part(group: Alike) -> FailurePart:
        newest = group.newest
        log, lines = "", ()
        if newest.attempt:
            files = paths(newest.task, newest.attempt)
            end = tails(files.err, files.out)
            log, lines = blamed_log(end, files), digest_of(end)
        return FailurePart(group.names, newest.attempt, newest.reason, newest.hint, log, lines)

    groups = groups_of(failure_of(task, paths, offline.index_of) for task in failed)
    return [part(group) for group in groups[:MOST_FAILURES]]


def _host(offline: OfflineDeck, told: Mapping[tuple[str, int], Told]) -> str:
    names = [fact.host for fact in offline.facts if isinstance(fact, RunStarted) and fact.host]
    names += [one.host for one in told.values() if one.host]
    return ", ".join(dict.fromkeys(names))


def _commits(attempts: Iterable[AttemptPart], told: Mapping[tuple[str, int], Told]) -> list[str]:
    """The newest first."""
    newest = sorted(attempts, key=lambda attempt: attempt.start, reverse=True)
    states = (told[attempt.task, attempt.number].git for attempt in newest)
    return list(dict.fromkeys(git_text(git) for git in states if git and git.get("commit")))


def _ways(tasks: Iterable[Task], names: Iterable[str]) -> Mapping[str, How]:
    declared = {metric.name: metric for task in tasks for metric in task.spec.extras.metrics}
    return {name: Asked(name, None).way(declared.get(name)) for name in names}


def _tables(results: Sequence[Result], ways: Mapping[str, How]) -> Iterator[MetricsPart]:
    """For each entry with params and metrics: over two of its axes where there are several, means over seeds."""
    by_entry: dict[str, list[Result]] = {}
    for result in results:
        by_entry.setdefault(result.entry, []).append(result)
    for entry, members in by_entry.items():
        told: dict[str, How] = {
            name: way for name, way in ways.items() if any(name in result.values for result in members)
        }
        done = [result for result in members if result.done and result.values]
        axes = varying(done)
        over = tuple(name for name in axes if name in REPEATS)
        others = [name for name in axes if name not in over]
        if not told or not others:
            continue
        layout = _layout(done, told, others, over)
        try:
            yield MetricsPart(_title(entry, layout), tabulate(done, layout))
        except UsageError:  # params that come in no grid
            continue


def _layout(done: Sequence[Result], told: Mapping[str, How], others: Sequence[str], over: tuple[str, ...]) -> Layout:
    """The axis with the fewest values lies across, if it is narrow."""
    values = {name: len({result.params.get(name) for result in done}) for name in others}
    across = min(others, key=lambda name: (values[name], -others.index(name)))
    if len(others) == 1 or values[across] * len(told) > _MOST_COLUMNS:
        return Layout(told, over, tuple(others))
    return Layout(told, over, tuple(name for name in others if name != across), (across,))


def _member(records: Records, task: Task) -> Member:
    kept = read_kept(records.paths(task).curves).curves if records.attempt(task) else ()
    params = {**task.spec.params, **records.given(task)}
    return Member(task.name, task.spec.entry, params, {curve.name: curve for curve in kept})


def _curves(members: Sequence[Member]) -> Iterator[CurvesPart]:
    """Of each metric that somebody has more than one value of: all in one picture; where they are too many, one for
    each entry that makes several lines, and one for the others."""
    for metric in dict.fromkeys(name for member in members for name in member.curves):
        mine = [member for member in members if metric in member.curves]
        whole = _picture(metric, mine)
        if whole is None:
            continue
        if len(whole.lines) < _MOST_LINES or not whole.left_out:
            yield whole
            continue
        by_entry: dict[str, list[Member]] = {}
        for member in mine:
            by_entry.setdefault(member.entry, []).append(member)
        several = [entry for entry, its in by_entry.items() if len(grouped(its)) > 1][:_MOST_PICTURES]
        parts = [_picture(metric, by_entry.pop(entry), entry) for entry in several]
        parts.append(_picture(metric, [member for its in by_entry.values() for member in its], "other tasks"))
        yield from filter(None, parts)


def _picture(metric: str, members: Sequence[Member], of: str = "") -> CurvesPart | None:
    """Over what most of them count. None: nobody has two values."""
    if all(member.curves[metric].count < 2 for member in members):
        return None
    axis = axes_of(members, metric)[0]
    lines = drawn(members, metric, axis, groups=True)
    seen = [line for line in lines if len(line.points) > 1][:_MOST_LINES]
    return CurvesPart(metric, axis, seen, len(lines) - len(seen), of) if seen else None


def _title(entry: str, layout: Layout) -> str:
    across = f" by {' and '.join(layout.columns)}" if layout.columns else ""
    over = f", mean ± standard deviation over {' and '.join(layout.over)}" if layout.over else ""
    return f"{entry}{across}{over}"
