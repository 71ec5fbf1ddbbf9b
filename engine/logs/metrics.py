"""Numbers that a task reports: by pattern from its output, by key from a JSON file, or from `::gpudeck` lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from .marks import number_of

MAX_METRICS = 128
"""More names than these are not kept for an attempt."""


class Values:
    """What one metric has been."""

    def __init__(self, by: str = "last") -> None:
        """*by*: "max", "min" or "last"."""
        self.by = by
        self.last: float | None = None
        self.best: float | None = None

    def take(self, value: float) -> None:
        """What is no number, or infinite, may be the last, never the best."""
        self.last = value
        if math.isfinite(value):
            old = self.best
            better = old is None or self.by == "last" or (value > old if self.by == "max" else value < old)
            self.best = value if better else old


class Points:
    """Points of one attempt, as shares of its progress, and what a metric has come to when it passes them (`prune`). A
    point that is passed together with a later one is left out: what the metric was there
    nobody knows."""

    def __init__(self, metric: str, name: str, by: str, at: Sequence[float]) -> None:
        """*metric*: "val_loss:min", *name* and *by* its parts. *at*: rising, each between 0 and 1."""
        self._metric = metric
        self.name = name
        self.by = by
        self._ahead = list(at)

    def passed(self, share: float, values: Values) -> list[tuple[str, float, float | None]]:
        """The metric, the point and the best value until there, None where the last is not a number: one at most. At
        the end of a run nothing is told any more."""
        if not self._ahead or share < self._ahead[0] or share >= 1 or values.last is None:
            return []
        point = max(each for each in self._ahead if each <= share)
        self._ahead = [each for each in self._ahead if each > share]
        return [(self._metric, point, None if math.isnan(values.last) else values.best)]


def finder(pattern: str) -> Callable[[str], list[float]]:
    """Finds all values in a line: a pattern's first group, or all of it without one. Raises re.error."""
    search = re.compile(pattern).finditer

    def find(line: str) -> list[float]:
        found = (number_of(match[1] if match.re.groups else match[0]) for match in search(line) if _said(match))
        return [value for value in found if value is not None]

    return find


def _said(match: re.Match[str]) -> bool:
    return not match.re.groups or match[1] is not None


def documents(raw: bytes) -> list[object]:
    """What a file of JSON holds, or each line of JSON lines. Empty: it is being written, or is neither."""
    try:
        return [json.loads(raw)]
    except (ValueError, RecursionError):
        pass
    found: list[object] = []
    for line in raw.splitlines():
        try:
            found += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError):
            continue
    return found


def numbers_at(key: str, held: Iterable[object]) -> list[float]:
    """The numbers at a dotted *key* ("val.acc", "history.-1.acc") of `documents`; a list there gives all of its."""
    return [number for document in held for number in _numbers(_at(document, key))]


def _at(value: object, key: str) -> object:
    """A key that has dots itself is found as it is."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        if key in table:
            return table[key]
        parts = key.split(".")
        for place in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[:place])
            if name in table:
                return _at(table[name], ".".join(parts[place:]))
        return None
    if isinstance(value, list):
        items = cast("list[object]", value)
        first, _, rest = key.partition(".")
        if not re.fullmatch(r"-?\d{1,9}", first) or not -len(items) <= int(first) < len(items):
            return None
        return _at(items[int(first)], rest) if rest else items[int(first)]
    return None


def _numbers(value: object) -> list[float]:
    items: Iterable[object] = cast("list[object]", value) if isinstance(value, list) else (value,)
    found: list[float] = []
    for item in items:
        if isinstance(item, str):
            number = number_of(item)
            found += [] if number is None else [number]
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            try:
                found.append(float(item))
            except OverflowError:
                continue
    return found


def to_text(values: Mapping[str, float]) -> dict[str, float | str]:
    """As JSON can hold them: "nan", "inf" and "-inf" as text."""
    return {name: value if math.isfinite(value) else str(value) for name, value in values.items()}


def from_text(values: object) -> dict[str, float]:
    """What `to_text` made; what is no number is left out."""
    if not isinstance(values, dict):
        return {}
    found: dict[str, float] = {}
    for name, value in cast("dict[str, Any]", values).items():
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            try:
                found[str(name)] = float(value)
            except (ValueError, OverflowError):
                continue
    return found
