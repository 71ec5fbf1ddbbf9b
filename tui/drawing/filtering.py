"""What the filter's words mean. Selectors of commands mean the same here; bare words are found anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from ...engine.core.selector import Facts, parse_selector
from ...engine.errors import UsageError
from ...engine.protocol.states import PENDING, is_pending
from ...engine.protocol.wire import TaskRow

Uuids = Mapping[int, str]
"""UUIDs of the deck's GPUs by index."""
Test = Callable[[TaskRow, Uuids], bool]

_WORD = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_ENGINES = ("state", "reason", "tag", "gpu")
_ROW_FLAGS = ("gone", "left-out")
"""What a row has beside the flags that selectors know."""
_PLACES = ("entry", "group", "round", "node", "job")


@dataclass(frozen=True, slots=True)
class Filter:
    """All of its tests must hold."""

    text: str = ""
    tests: tuple[Test, ...] = ()

    def matches(self, row: TaskRow, uuids: Uuids) -> bool:
        return all(test(row, uuids) for test in self.tests)


EVERYTHING = Filter()


def parse(text: str) -> Filter:
    """Words, `state:failed,running`, `tag:x`, `gpu:2`, `reason:oom`, `lr=0.1`, `entry:`, `group:`, `round:`, `node:`,
    `job:`; `-` in front negates, "quotes" keep a phrase together. Raises UsageError for what can match nothing."""
    tests = [test for match in _WORD.finditer(text) if (test := _test(match)) is not None]
    return Filter(text.strip(), tuple(tests))


def _test(match: re.Match[str]) -> Test | None:
    minus, phrase, word = match.groups()
    if word == "-" or (word is None and not phrase):
        return None  # still being typed
    test = _anywhere(phrase) if word is None else _term(word)
    return _negated(test) if minus else test


def _negated(test: Test) -> Test:
    return lambda row, uuids: not test(row, uuids)


def _term(word: str) -> Test:
    kind, colon, values = word.partition(":")
    if colon and kind in (*_ENGINES, *_PLACES):
        parts = [part for part in values.split(",") if part]
        if not parts:
            raise UsageError(f"{word}: nothing after the colon")
        return _any([_by_kind(kind, part) for part in parts])
    key, equals, value = word.partition("=")
    if equals and value and re.fullmatch(r"[A-Za-z_]\w*", key):
        return _selected(word)
    if any(char in word for char in "*?["):
        return _either(_selected_name(word), _anywhere(word))
    return _anywhere(word)


def _any(tests: list[Test]) -> Test:
    return tests[0] if len(tests) == 1 else lambda row, uuids: any(test(row, uuids) for test in tests)


def _either(one: Test, other: Test) -> Test:
    return lambda row, uuids: one(row, uuids) or other(row, uuids)


def _by_kind(kind: str, value: str) -> Test:
    if kind == "state" and value in _ROW_FLAGS:
        return lambda row, _: value in states(row)
    if kind in _ENGINES:
        return _selected(f"{kind}:{value}")
    pattern = re.compile(translate(value))
    if kind == "round":
        return lambda row, _: pattern.match(str(row.round)) is not None
    if kind == "node":
        return lambda row, _: any(pattern.match(node) for node in row.nodes)
    if kind == "job":
        return lambda row, _: pattern.match(row.job) is not None or pattern.match(row.job.partition("_")[0]) is not None
    if kind == "group":
        return lambda row, _: pattern.match(row.group) is not None
    return lambda row, _: pattern.match(row.entry) is not None


def _selected(word: str) -> Test:
    """As the engine understands it; rows that cannot match are passed over without asking."""
    selector = parse_selector(word)
    term = selector.terms[0]
    match term.kind:
        case "state":
            return _state(term.pattern)
        case "tag":
            return lambda row, uuids: bool(row.tags) and term.matches(subject(row, uuids))
        case "gpu":
            return lambda row, uuids: bool(row.gpus) and term.matches(subject(row, uuids))
        case "param":
            return lambda row, uuids: (term.key in row.params or "=" in row.name) and term.matches(subject(row, uuids))
        case _:
            return lambda row, uuids: term.matches(subject(row, uuids))


def _state(pattern: re.Pattern[str]) -> Test:
    @lru_cache(64)
    def fits(state: str) -> bool:
        return pattern.match(state) is not None

    return lambda row, _: fits(row.state) or any(fits(flag) for flag in states(row)[1:])


def _selected_name(word: str) -> Test:
    pattern = re.compile(translate(word))
    return lambda row, _: pattern.match(row.name) is not None


def _anywhere(text: str) -> Test:
    """In the name, a param, a tag, a node or the reason, whatever the case; or the job."""
    wanted = text.lower()

    def found(row: TaskRow, _: Uuids) -> bool:
        return (
            wanted in row.name.lower()
            or (bool(row.reason) and wanted in row.reason.lower())
            or any(wanted in tag.lower() for tag in row.tags)
            or (bool(row.job) and (wanted == row.job or any(wanted in node.lower() for node in row.nodes)))
            or any(wanted in f"{key}={value}".lower() for key, value in row.params.items())
        )

    return found


def states(row: TaskRow) -> list[str]:
    """Its phase and what is flagged beside it."""
    found: list[str] = [row.state]
    if is_pending(row):
        found.append(PENDING)
    if row.held:
        found.append("held")
    if row.changed:
        found.append("changed")
    if row.stale:
        found.append("stale")
    if row.gone:
        found.append("gone")
    if row.left_out:
        found.append("left-out")
    return found


def subject(row: TaskRow, uuids: Uuids) -> Facts:
    """A row as selectors see a task."""
    return Facts(
        name=row.name,
        tags=row.tags,
        params=row.params,
        states=states(row),
        reason=row.kind,
        gpus=[text for index in row.gpus for text in (str(index), uuids.get(index, "")) if text],
    )
