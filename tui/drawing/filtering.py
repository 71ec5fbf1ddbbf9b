"""What the filter's words mean. Selectors of commands mean the same here; bare words are found anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...engine.core.selector import KINDS, Subject, Term, is_glob, parse_term
from ...engine.errors import UsageError
from ...engine.protocol.states import PENDING, is_pending
from ...engine.protocol.wire import TaskRow
from .view import flags

Uuids = Mapping[int, str]
"""UUIDs of the deck's GPUs by index."""
Test = Callable[[TaskRow, Uuids], bool]

_WORD = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')


@dataclass(frozen=True, slots=True)
class Filter:
    """All of its tests must hold."""

    text: str = ""
    tests: tuple[Test, ...] = ()

    def matches(self, row: TaskRow, uuids: Uuids) -> bool:
        return all(test(row, uuids) for test in self.tests)


EVERYTHING = Filter()


def parse(text: str) -> Filter:
    """A selector, as commands take it (`engine.core.selector`), but for bare words: these are found anywhere in a row,
    and "quotes" keep a phrase together. Raises UsageError for what can match nothing."""
    found = [found for match in _WORD.finditer(text) if (found := _test(match)) is not None]
    globs = [test for test, is_name in found if is_name]
    tests = [test for test, is_name in found if not is_name]
    return Filter(text.strip(), (*tests, *([_any(globs)] if globs else ())))


def misspelt(text: str) -> str:
    """The selector that a word, searched for as text, was meant to be: "did you mean state:failed?"."""
    for word in text.split():
        kind, colon, value = word.removeprefix("-").partition(":")
        if colon and value and kind not in KINDS:
            try:
                parse_term(word)
            except UsageError as error:
                said = str(error).partition("did you mean ")[2]
                return f"did you mean {said}" if said else ""
    return ""


def _test(match: re.Match[str]) -> tuple[Test, bool] | None:
    """And whether it names tasks: globs are added up, all else narrows."""
    minus, phrase, word = match.groups()
    if word == "-" or (word is None and not phrase):
        return None  # still being typed
    if word is None:
        test, is_name = _anywhere(phrase), False
    else:
        test, is_name = _term(word), not minus and _names_by_glob(word)
    return (_negated(test) if minus else test), is_name


def _names_by_glob(word: str) -> bool:
    return is_glob(word) and ":" not in word and "=" not in word


def _negated(test: Test) -> Test:
    return lambda row, uuids: not test(row, uuids)


def _term(word: str) -> Test:
    kind, colon, _ = word.partition(":")
    key, equals, value = word.partition("=")
    if (colon and kind in KINDS) or (not colon and equals and value and re.fullmatch(r"[A-Za-z_]\w*", key)):
        return _selected(parse_term(word))
    if _names_by_glob(word):
        named = parse_term(word)
        return _any([lambda row, uuids: named.is_in(subject(row, uuids)), _anywhere(word)])
    return _anywhere(word)


def _any(tests: list[Test]) -> Test:
    return tests[0] if len(tests) == 1 else lambda row, uuids: any(test(row, uuids) for test in tests)


def _selected(term: Term) -> Test:
    """As the engine understands it; rows that cannot match are passed over without asking."""
    match term.kind:
        case "state":
            return _state(term.patterns)
        case "tag":
            return lambda row, uuids: bool(row.tags) and term.is_in(subject(row, uuids))
        case "gpu":
            return lambda row, uuids: bool(row.gpus) and term.is_in(subject(row, uuids))
        case "param":
            return lambda row, uuids: (term.key in row.params or "=" in row.name) and term.is_in(subject(row, uuids))
        case _:
            return lambda row, uuids: term.is_in(subject(row, uuids))


def _state(patterns: Sequence[re.Pattern[str]]) -> Test:
    @lru_cache(64)
    def fits(state: str) -> bool:
        return any(pattern.match(state) is not None for pattern in patterns)

    return lambda row, _: fits(row.state) or any(fits(flag) for flag in states(row)[1:])


def _anywhere(text: str) -> Test:
    """In the name, a param, a tag, a node or the reason, whatever the case; or the job."""
    wanted = text.lower()

    def found(row: TaskRow, _: Uuids) -> bool:
        return (
            wanted in row.name.lower()
            or (bool(row.reason) and wanted in row.reason.lower())
            or any(wanted in tag.lower() for tag in row.tags)
            or (bool(row.job) and (wanted == row.job or any(wanted in node.lower() for node in row.nodes)))
            or any(wanted in f"{key}={value}".lower() for key, value in params(row).items())
        )

    return found


def params(row: TaskRow) -> Mapping[str, str]:
    """With the values of [vars] that a retry has put in the place of the file's."""
    return {**row.params, **row.given} if row.given else row.params


def states(row: TaskRow) -> list[str]:
    """Its phase and what is flagged beside it."""
    pending = [PENDING] if is_pending(row) else []
    return [row.state, *pending, *(flag.replace("_", "-") for flag in flags(row))]


def subject(row: TaskRow, uuids: Uuids) -> Subject:
    """A row as selectors see a task."""
    return Subject(
        name=row.name,
        tags=row.tags,
        params=params(row),
        entry=row.entry,
        group=row.group,
        round=row.round,
        states=states(row),
        reason=row.kind,
        gpus=[text for index in row.gpus for text in (str(index), uuids.get(index, "")) if text],
        nodes=row.nodes,
        job=row.job,
    )
