"""SEL: which tasks a user means, on the command line and in the screen's filter."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher, get_close_matches
from fnmatch import translate
from itertools import islice
from typing import Literal, Protocol, cast

from ..errors import UsageError
from ..text import names_text

STATES = (
    "waiting", "queued", "starting", "running", "stopping", "closing", "backoff", "succeeded", "failed", "cancelled",
    "pruned", "cached", "blocked", "unknown", "pending", "held", "changed", "stale", "gone", "left-out",
)  # fmt: skip
"""What can follow `state:`; the last six stand beside the phase."""

REASONS = (
    "ok", "exit", "signal", "oom", "timeout", "missing output", "stale output", "watch", "spawn error", "lost",
    "interrupted", "cancelled", "port taken", "preempted", "node_fail", "pruned",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """What a selector looks at."""

    name: str
    tags: Sequence[str] = ()
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    entry: str = ""
    group: str = ""
    round: int = 0
    states: Sequence[str] = ()
    """Its phase and flags."""
    reason: str = ""
    """How its last attempt ended; empty: it has none."""
    gpus: Sequence[str] = ()
    """Indices and UUIDs of the GPUs of its present or last attempt."""
    nodes: Sequence[str] = ()
    """Of a cluster, those of that attempt."""
    job: str = ""
    """The cluster's id of it."""


Kind = Literal["name", "param", "state", "reason", "tag", "gpu", "entry", "group", "round", "node", "job"]
_OF_HISTORY: frozenset[Kind] = frozenset(("state", "reason", "gpu", "node", "job"))


@dataclass(frozen=True, slots=True)
class Term:
    """One condition."""

    kind: Kind
    text: str
    """As written, without the "-" before it."""
    patterns: tuple[re.Pattern[str], ...]
    """Alternatives."""
    key: str = ""
    """For a param: its name."""
    values: tuple[str, ...] = ()
    """For a param: the alternatives as written; 0.5 means 0.50, too."""
    negated: bool = False

    @property
    def needs_history(self) -> bool:
        """It asks for what only a deck that has run can tell."""
        return self.kind in _OF_HISTORY

    def matches(self, subject: Subject) -> bool:
        return self.is_in(subject) is not self.negated

    def is_in(self, subject: Subject) -> bool:
        """Whatever stands before it."""
        match self.kind:
            case "name":
                return self._any((subject.name,))
            case "param":
                return self._param(subject)
            case "state":
                return self._any(subject.states)
            case "reason":
                return self._any((_dashed(subject.reason),))
            case "tag":
                return self._any(subject.tags)
            case "gpu":
                return self._any(subject.gpus)
            case "entry":
                return self._any((subject.entry,))
            case "group":
                return self._any((subject.group,))
            case "round":
                return self._any((str(subject.round),))
            case "node":
                return self._any(subject.nodes)
            case "job":
                return bool(subject.job) and self._any((subject.job, subject.job.partition("_")[0]))

    def _any(self, texts: Sequence[str]) -> bool:
        return any(pattern.match(text) is not None for text in texts for pattern in self.patterns)

    def _param(self, subject: Subject) -> bool:
        value = subject.params.get(self.key)
        if value is not None and (self._any((value,)) or any(_equal_numbers(value, each) for each in self.values)):
            return True
        return re.match(translate(self.text), subject.name) is not None


@dataclass(frozen=True, slots=True)
class Selector:
    """Which tasks are meant: of those that one of *names* names, or of all, those of which all *terms* hold."""

    text: str
    names: tuple[Term, ...]
    terms: tuple[Term, ...]

    @property
    def conditions(self) -> tuple[Term, ...]:
        return (*self.names, *self.terms)

    @property
    def needs_history(self) -> bool:
        """It asks for what only a deck that has run can tell: states, reasons, GPUs."""
        return any(term.needs_history for term in self.terms)

    def matches(self, subject: Subject) -> bool:
        named = not self.names or any(term.matches(subject) for term in self.names)
        return named and all(term.matches(subject) for term in self.terms)


def parse_selector(texts: Iterable[str], known: Container[str] = ()) -> Selector:
    """Names and globs are added up; `state:failed`, `reason:oom`, `tag:x`, `gpu:5`, `entry:`, `group:`, `round:`,
    `node:`, `job:` and `noise=asym` narrow, each by all of what it says; commas are alternatives, and "-" before any of
    these leaves out. *known*: names of tasks, which may look like anything. Raises UsageError for what can match
    nothing."""
    texts = list(texts)
    found: list[Term] = []
    for text in texts:
        found += [_named(text)] if text in known else map(parse_term, text.split())
    if not found:
        raise UsageError('an empty selector: use a name, a glob such as "train-*", or state:failed')
    names = tuple(term for term in found if term.kind == "name" and not term.negated)
    return Selector(" ".join(texts), names, tuple(term for term in found if term not in names))


def _named(name: str) -> Term:
    return Term("name", name, (re.compile(re.escape(name) + r"\Z"),))


def parse_term(word: str) -> Term:
    """One word of a selector. Raises UsageError for one that can match nothing."""
    if word.startswith("-") and len(word) > 1:
        return replace(parse_term(word[1:]), negated=True)
    kind, colon, value = word.partition(":")
    if colon:
        return _by_kind(word, kind, value)
    key, equals, value = word.partition("=")
    if equals and key and re.fullmatch(r"[A-Za-z_]\w*", key):
        values = _alternatives(value)
        return Term("param", word, tuple(map(_glob, values)), key, values)
    return Term("name", word, tuple(map(_glob, _alternatives(word))))


def _alternatives(text: str) -> tuple[str, ...]:
    """A name or a value may have a comma itself."""
    return tuple(dict.fromkeys((text, *(part for part in text.split(",") if part))))


def _by_kind(word: str, kind: str, value: str) -> Term:
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1)
        hint = (
            f"did you mean {near[0]}:{value}?"
            if near
            else f"there is no {kind}: ({_KNOWN} are known); a value is {word.replace(':', '=')}"
        )
        raise UsageError(f"{word}: {hint}")
    values = [part for part in value.split(",") if part]
    if not values:
        raise UsageError(f"{word.rstrip(':')}: nothing after the colon")
    if kind == "state":
        values = [_checked(kind, each, STATES) for each in values]
    elif kind == "reason":
        values = [_checked(kind, _dashed(each), [_dashed(reason) for reason in REASONS]) for each in values]
    elif kind == "gpu":
        values = [f"{each}*" if each.startswith(("GPU-", "MIG-")) else each for each in values]
    return Term(cast("Kind", kind), word, tuple(map(_glob, values)))


KINDS = ("state", "reason", "tag", "gpu", "entry", "group", "round", "node", "job")
_KNOWN = "state:, reason:, tag:, gpu:, entry:, group:, round:, node: and job:"


_MEANT = {
    "done": "succeeded", "completed": "succeeded", "finished": "succeeded", "success": "succeeded",
    "error": "failed", "errored": "failed", "killed": "cancelled", "aborted": "cancelled", "stopped": "cancelled",
    "active": "running", "stashed": "held", "skipped": "cached", "cuda-oom": "oom", "out-of-memory": "oom",
    "crash": "exit", "error-exit": "exit", "time-limit": "timeout",
}  # fmt: skip
"""Words of other tools for states and reasons."""


def _checked(kind: str, value: str, known: Sequence[str]) -> str:
    if is_glob(value):
        return value
    value = value.lower()
    if value in known:
        return value
    near = [_MEANT[value]] if _MEANT.get(value) in known else get_close_matches(value, known, n=1)
    hint = f"did you mean {kind}:{near[0]}?" if near else "it knows " + ", ".join(known)
    raise UsageError(f"{kind}:{value}: {hint}")


def is_glob(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


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


class Named(Protocol):
    """What has a name and what else a selector of a deck that has not run can mean."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def params(self) -> Mapping[str, str]: ...


_LOOK_AT = 2000
"""Tasks at most: to compare with each costs some 20 µs."""
_NEAR = 0.65
"""So alike are "bat" and "bad"; names of a sweep that differ in their number are, too, and all equally."""


def meant(text: str, tasks: Iterable[Named]) -> str:
    """ "train*" for "train", "rate=0.1" for "raet=0.1"; "" where nothing is near, or several are as near."""
    seen = list(islice(tasks, _LOOK_AT))
    kind, colon, word = text.partition(":")
    key, equals, value = text.partition("=")
    if len(text.split()) != 1:
        return ""
    if not colon and (spelled := _as_spelled(text, seen)):
        return spelled
    if is_glob(text):
        return ""
    if text in STATES:
        return f"state:{text}"
    if colon:
        near = nearest(word, {tag for task in seen for tag in task.tags}) if kind == "tag" else ""
        return near and f"tag:{near}"
    names = [task.name for task in seen]
    if not equals:
        longer = [name for name in names if name.startswith(text)]
        return f"{text}*" if len(longer) > 1 else longer[0] if longer else nearest(text, names)
    keys = {each for task in seen for each in task.params}
    if key not in keys:
        if key in KINDS:
            return f"{key}:{value}"
        near = nearest(key, keys)
        return f"{near}={value}" if near else nearest(text, names)
    near = nearest(value, {task.params[key] for task in seen if key in task.params})
    return near and f"{key}={near}"


def _as_spelled(text: str, tasks: Sequence[Named]) -> str:
    """ "train-lr0.01*" for "train-lr1e-2*": with numbers as the tasks write them; "" where none matches so."""
    known = {float(value): value for task in tasks for value in task.params.values() if _NUMBER.fullmatch(value)}
    spelled = _NUMBER.sub(lambda found: known.get(float(found[0]), found[0]), text)
    term = parse_term(spelled)
    return spelled if any(term.is_in(Subject(task.name, params=task.params)) for task in tasks) else ""


_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)


NO_MATCH = "no task of this deck matches"


def nothing_matches(text: str, tasks: Iterable[Named]) -> str:
    """What to say of a selector that means no task."""
    seen = list(islice(tasks, _LOOK_AT))
    near = meant(text, seen)
    hint = f"did you mean {near}?" if near else _what_there_is(text, seen)
    return f"{text}: {NO_MATCH}" + (f"; {hint}" if hint else "")


def _what_there_is(text: str, tasks: Sequence[Named]) -> str:
    """Of a name or a value that is like none."""
    key, equals, _ = text.partition("=")
    values = list(dict.fromkeys(task.params[key] for task in tasks if key in task.params))
    if values:
        return f"{key} is {names_text(values)}"
    keys = list(dict.fromkeys(key for task in tasks for key in task.params))
    if equals and keys:
        return f"its tasks have values of {names_text(keys)}"
    return "tasks go by their names: `gpudeck ls`" if text.isdecimal() else ""


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
