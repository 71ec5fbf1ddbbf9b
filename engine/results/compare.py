"""Two settings side by side, run by run or as samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from ..text import names_text
from .difference import Difference
from .results import Result
from .table import refuse_unknown, varying, with_one_spelling

Verdict = Literal["first", "second", "open", "few"]
"""Which of the two is better; open: both may be; few: too few values to say anything."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of one combination of what both have."""

    setting: tuple[str, ...]
    """Values of `Comparison.params`."""
    metric: str
    best: Literal["max", "min", "last"]
    difference: Difference

    @property
    def verdict(self) -> Verdict:
        if self.difference.interval is None:
            return "few"
        if not self.difference.differs:
            return "open"
        if self.best == "min":
            return "second" if self.difference.mean < 0 else "first"
        return "second" if self.difference.mean > 0 else "first"


@dataclass(frozen=True, slots=True)
class Comparison:
    params: tuple[str, ...]
    """What tasks differ in beside what tells the two apart."""
    rows: tuple[Compared, ...]
    lonely: frozenset[str]
    """Names of tasks whose setting, or whose value of what is averaged over, the other side does not have."""


def compare(
    first: Sequence[Result],
    second: Sequence[Result],
    metrics: Mapping[str, Literal["max", "min", "last"]],
    over: Sequence[str],
    *,
    paired: bool,
) -> Comparison:
    """*over*: params to average over. Raises UsageError for what cannot be compared."""
    everything = with_one_spelling([*first, *second])
    first, second = everything[: len(first)], everything[len(first) :]
    refuse_unknown(everything, over)
    if both := {result.task for result in first} & {result.task for result in second}:
        raise UsageError(f"{names_text(sorted(both))}: of both sides; each task can be of one")
    params = tuple(name for name in varying(everything) if name not in over and not _apart(first, second, name))
    sides = [_by_setting(side, params, over) for side in (first, second)]
    rows: list[Compared] = []
    settings = [setting for setting in sides[0] if setting in sides[1]]
    lonely = {
        one.task
        for side in sides
        for setting, members in side.items()
        if setting not in settings
        for one in members.values()
    }
    for setting in settings:
        for metric, best in metrics.items():
            values, alone = _values(sides[0][setting], sides[1][setting], metric, paired=paired)
            lonely.update(alone)
            if values[0] and values[1]:
                rows.append(Compared(setting, metric, best, Difference(*values, paired)))
    return Comparison(params, tuple(rows), frozenset(lonely))


_Members = Mapping[tuple[str, ...], Result]
"""Results by the values of what is averaged over."""


def _by_setting(
    results: Sequence[Result], params: Sequence[str], over: Sequence[str]
) -> Mapping[tuple[str, ...], _Members]:
    found: dict[tuple[str, ...], dict[tuple[str, ...], Result]] = {}
    for result in results:
        members = found.setdefault(_of(result, params), {})
        other = members.setdefault(_of(result, over), result)
        if other is not result:
            keys = varying([other, result])
            together = f"`--over {','.join([*over, *keys])}` takes them together"
            mend = together if keys else "they differ in no param, so choose one of them"
            raise UsageError(f"{other.task} and {result.task} are of one side and of one setting: {mend}")
    return found


def _values(
    first: _Members, second: _Members, metric: str, *, paired: bool
) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], list[str]]:
    """Values of both sides, and tasks that have no counterpart."""
    sides = [{key: one for key, one in side.items() if metric in one.values} for side in (first, second)]
    if paired:
        keys = [key for key in sides[0] if key in sides[1]]
        alone = [one.task for side in sides for key, one in side.items() if key not in keys]
        sides = [{key: side[key] for key in keys} for side in sides]
    else:
        alone = []
    values = (tuple(one.values[metric] for one in side.values()) for side in sides)
    return (next(values), next(values)), alone


def _of(result: Result, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(result.params.get(name, "-") for name in names)


def _apart(first: Sequence[Result], second: Sequence[Result], name: str) -> bool:
    """No value of a param is of both sides: it tells them apart."""
    return not {result.params.get(name) for result in first} & {result.params.get(name) for result in second}
