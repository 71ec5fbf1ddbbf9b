"""SEL: which tasks a user means, on the command line and in the screen's filter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from fnmatch import translate
from itertools import islice
from typing import Literal, Protocol

from ..errors import UsageError
from .spec import TaskSpec, is_glob

STATES = (
    "waiting", "queued", "starting", "running", "stopping", "closing", "backoff", "succeeded", "failed", "cancelled",
    "cached", "blocked", "unknown", "pending", "held", "changed", "stale",
)  # fmt: skip
"""What can follow `state:`; the last four stand beside the phase."""

REASONS = (
    "ok", "exit", "signal", "oom", "timeout", "missing output", "stale output", "watch", "spawn error", "lost",
    "interrupted", "cancelled", "port taken", "preempted", "node_fail",
)  # fmt: skip


class Subject(Protocol):
    """What a selector looks at."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def params(self) -> Mapping[str, str]: ...
    @property
    def states(self) -> Sequence[str]:
        """Its phase and flags."""
        ...

    @property
    def reason(self) -> str:
        """How its last attempt ended; empty: it has none."""
        ...

    @property
    def gpus(self) -> Sequence[str]:
        """Indices and UUIDs of the GPUs of its present or last attempt."""
        ...


@dataclass(frozen=True, slots=True)
class Facts:
    """A subject made of plain values."""

    name: str
    tags: Sequence[str] = ()
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    states: Sequence[str] = ()
    reason: str = ""
    gpus: Sequence[str] = ()


Kind = Literal["name", "state", "reason", "tag", "gpu", "param"]


@dataclass(frozen=True, slots=True)
class Term:
    """One condition."""

    kind: Kind
    pattern: re.Pattern[str]
    key: str = ""
    """For a param: its name."""
    text: str = ""
    """As written, for names that contain "="."""

    def matches(self, subject: Subject) -> bool:
        match self.kind:
            case "name":
                return self._any((subject.name,))
            case "state":
                return self._any(subject.states)
            case "reason":
                return self._any((_dashed(subject.reason),))
            case "tag":
                return self._any(subject.tags)
            case "gpu":
                return self._any(subject.gpus)
            case "param":
                return self._param(subject)

    def _any(self, texts: Sequence[str]) -> bool:
        return any(self.pattern.match(text) is not None for text in texts)

    def _param(self, subject: Subject) -> bool:
        value = subject.params.get(self.key)
        if value is not None and (self._any((value,)) or _equal_numbers(value, self.text.partition("=")[2])):
            return True
        return re.match(translate(self.text), subject.name) is not None


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions that must all hold."""

    text: str
    terms: tuple[Term, ...]

    @property
    def needs_history(self) -> bool:
        """It asks for what only a deck that has run can tell: states, reasons, GPUs."""
        return any(term.kind in ("state", "reason", "gpu") for term in self.terms)

    def matches(self, subject: Subject) -> bool:
        return all(term.matches(subject) for term in self.terms)


def parse_selector(text: str) -> Selector:
    """Names, globs, `state:failed`, `reason:oom`, `tag:x`, `gpu:5`, `noise=asym`; several with spaces between must all
    hold. Raises UsageError for one that can match nothing."""
    terms = tuple(_term(word) for word in text.split())
    if not terms:
        raise UsageError('an empty selector: use a name, a glob such as "train-*", or state:failed')
    return Selector(text, terms)


def _term(word: str) -> Term:
    kind, colon, value = word.partition(":")
    if colon:
        return _by_kind(word, kind, value)
    key, equals, value = word.partition("=")
    if equals and key and re.fullmatch(r"[A-Za-z_]\w*", key):
        return Term("param", _glob(value), key, word)
    return Term("name", _glob(word), text=word)


def _by_kind(word: str, kind: str, value: str) -> Term:
    if not value:
        raise UsageError(f"{word}: nothing after the colon")
    match kind:
        case "state":
            _check(word, value, STATES)
            return Term("state", _glob(value))
        case "reason":
            _check(word, _dashed(value), [_dashed(reason) for reason in REASONS])
            return Term("reason", _glob(_dashed(value)))
        case "tag":
            return Term("tag", _glob(value))
        case "gpu":
            return Term("gpu", _glob(f"{value}*" if value.startswith(("GPU-", "MIG-")) else value))
        case _:
            near = get_close_matches(kind, _KINDS, n=1)
            hint = f"did you mean {near[0]}:{value}?" if near else f"there is no {kind}: ({_KNOWN} are known)"
            raise UsageError(f"{word}: {hint}")


_KINDS = ("state", "reason", "tag", "gpu")
_KNOWN = "state:, reason:, tag: and gpu:"


def _check(word: str, value: str, known: Sequence[str]) -> None:
    if value not in known and not any(character in value for character in "*?["):
        near = get_close_matches(value, known, n=1)
        kind = word.partition(":")[0]
        raise UsageError(f"{word}: " + (f"did you mean {kind}:{near[0]}?" if near else "it knows " + ", ".join(known)))


def _glob(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))


def _dashed(text: str) -> str:
    return text.replace(" ", "-").replace("_", "-")


def _equal_numbers(one: str, other: str) -> bool:
    """0.50 is what `rate=0.5` means."""
    try:
        return float(one) == float(other)
    except ValueError:
        return False


_LOOK_AT = 2000
"""Tasks at most: to compare with each costs some 20 µs."""
_NEAR = 0.65
"""So alike are "bat" and "bad"; names of a sweep that differ in their number are, too, and all equally."""


def meant(text: str, tasks: Iterable[TaskSpec]) -> str:
    """ "train*" for "train", "rate=0.1" for "raet=0.1"; "" where nothing is near, or several are as near."""
    seen = list(islice(tasks, _LOOK_AT))
    kind, colon, word = text.partition(":")
    key, equals, value = text.partition("=")
    if len(text.split()) != 1 or is_glob(text):
        return ""
    if colon:
        near = nearest(word, {tag for task in seen for tag in task.tags}) if kind == "tag" else ""
        return near and f"tag:{near}"
    names = [task.name for task in seen]
    if not equals:
        longer = [name for name in names if name.startswith(text)]
        return f"{text}*" if len(longer) > 1 else longer[0] if longer else nearest(text, names)
    keys = {each for task in seen for each in task.params}
    if key not in keys:
        near = nearest(key, keys)
        return f"{near}={value}" if near else nearest(text, names)
    near = nearest(value, {task.params[key] for task in seen if key in task.params})
    return near and f"{key}={near}"


def nothing_matches(text: str, tasks: Iterable[TaskSpec]) -> str:
    """What to say of a selector that means no task."""
    near = meant(text, tasks)
    hint = f"; did you mean {near}?" if near else ""
    return f"{text}: no task of this deck matches{hint}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The one that is most like it; "" where none is like it, or two are equally so."""
    ratios = sorted(((_ratio(word, each), each) for each in set(known)), reverse=True)
    best: Sequence[tuple[float, str]] = ratios[:2]
    if not best or best[0][0] < _NEAR or (len(best) == 2 and best[0][0] == best[1][0]):
        return ""
    return best[0][1]


def _ratio(word: str, other: str) -> float:
    """1.0: the same but for case."""
    matcher = SequenceMatcher(None, word.lower(), other.lower())
    return matcher.ratio() if matcher.real_quick_ratio() >= _NEAR and matcher.quick_ratio() >= _NEAR else 0.0
