"""Placeholders: what they are in a text, what they may stand for in which key; texts and commands with their values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from .problems import BadValueError, did_you_mean, inside
from .values import as_text, is_list, is_table, shown

Values = Mapping[str, object]
"""What placeholders stand for, by name."""

RUNTIME = ("attempt", "gpu_ids", "num_gpus", "cpus", "run_dir", "log_dir", "run_id", "python")
"""Known only when an attempt starts; in a `Work` they stand as `marker(name)`."""

BUILT_IN = frozenset({*RUNTIME, "task", "deck", "nodes", "shard", "shards"})

_NAME = r"(?:env\.)?[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(rf"\$\{{{_NAME}\}}|\{{\{{({_NAME})\}}\}}|\{{({_NAME})\}}")
_FORMATTED = re.compile(rf"\$?(\{{\{{?)({_NAME})(:[^{{}}\n]*|![rsa](?::[^{{}}\n]*)?)(\}}\}}?)")
MARKER = re.compile(rf"\0\{{({_NAME})\}}")
"""What `marker` makes; the group is the name."""


class Slot(NamedTuple):
    """A placeholder in a text."""

    name: str


def marker(name: str) -> str:
    """What stands in a `Work` for a placeholder that is filled when an attempt starts. NUL occurs nowhere else."""
    return f"\0{{{name}}}"


def fill_markers(text: str, value: Callable[[str], str]) -> str:
    """Replace every marker by `value(name)`."""
    return MARKER.sub(lambda match: value(match[1]), text) if "\0" in text else text


def without_markers(text: str) -> str:
    """A `Work`'s text for people: what is filled later shows as {name}."""
    return text.replace("\0", "")


@lru_cache(maxsize=16384)
def parse(text: str) -> tuple[str | Slot, ...]:
    """Literal text and slots in turn. `{{name}}` is the text {name}; `${name}` and all other braces are left alone."""
    parts: list[str | Slot] = []
    literal, at = "", 0
    for match in _TOKEN.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        if match[2]:
            parts += [literal, Slot(match[2])] if literal else [Slot(match[2])]
            literal = ""
        else:
            literal += f"{{{match[1]}}}" if match[1] else match[0]
    literal += text[at:]
    return (*parts, literal) if literal else tuple(parts)


def unescaped(text: str) -> str:
    """What `escaped` was given; a placeholder stays as it is written."""
    return "".join(part if isinstance(part, str) else f"{{{part.name}}}" for part in parse(text))


def escaped(text: str) -> str:
    """What `parse` reads as *text* and nothing else."""

    def double(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith("$") else f"{{{match[0]}}}"

    return _TOKEN.sub(double, text)


def as_written(value: object) -> object:
    """What reads as *value* and nothing else, though it is searched for placeholders."""
    if isinstance(value, str):
        return escaped(value)
    if is_table(value):
        return {key: as_written(item) for key, item in value.items()}
    return [as_written(item) for item in value] if is_list(value) else value


def has_slots(value: object) -> bool:
    """Whether a placeholder, or a doubled one, stands anywhere in a value."""
    if isinstance(value, str):
        return "{" in value and _TOKEN.search(value) is not None
    if is_table(value):
        return any(map(has_slots, value.values()))
    return is_list(value) and any(map(has_slots, value))


def names_in(value: object) -> list[str]:
    """The placeholders anywhere in a value, in order."""
    if isinstance(value, str):
        return [part.name for part in parse(value) if isinstance(part, Slot)] if "{" in value else []
    items = value.values() if is_table(value) else value if is_list(value) else ()
    return [name for item in items for name in names_in(item)]


def lone(text: str) -> str | None:
    """The name in a text that is nothing but one placeholder."""
    parts = parse(text) if text[:1] == "{" else ()
    return parts[0].name if len(parts) == 1 and isinstance(parts[0], Slot) else None


def fill_text(text: str, values: Values) -> str:
    """*text* with the text of every value."""
    if "{" not in text:
        return text
    return "".join([part if isinstance(part, str) else as_text(values[part.name]) for part in parse(text)])


def fill(value: object, values: Values, *, text: bool = False) -> object:
    """*value* with all placeholders filled; a lone one takes its value's type. *text*: inside of lists and tables it
    stands for its value's text instead, and alone, too, unless that is a list or a table."""
    if isinstance(value, str):
        name = lone(value)
        if name is None:
            return fill_text(value, values)
        found = values[name]
        return as_text(found) if text and not (is_list(found) or is_table(found)) else found
    if is_list(value):
        return [_fill_item(item, values, text=text) for item in value]
    if is_table(value):
        return {key: _fill_item(item, values, text=text) for key, item in value.items()}
    return value


def _fill_item(value: object, values: Values, *, text: bool) -> object:
    return fill_text(value, values) if text and isinstance(value, str) else fill(value, values, text=text)


@dataclass(slots=True)
class Scope:
    """Which placeholders may stand in some keys of an entry."""

    known: MutableMapping[str, object]
    """The same for every task of the entry: [vars], {deck}, {nodes}; {env.NAME} comes in when it is first asked for."""
    environ: Mapping[str, str]
    columns: frozenset[str] = frozenset()
    """Differ from task to task."""
    partial: frozenset[str] = frozenset()
    """Columns without a value in some combination."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that are known but may not stand here, and why."""
    secret: Callable[[str], bool] | None = None
    """Where what is known only at the start may stand: whether {env.NAME} is to be read then, too, because its value is
    no part of what the work is."""

    def checked(self, value: object) -> object:
        """*value* with `{{name:.2f}}` as the text {name:.2f}. Raises BadValueError, inside a table's key, for a
        placeholder that is unknown or may not stand here."""
        if isinstance(value, str):
            return self.checked_text(value)
        if is_list(value):
            return [self.checked(item) for item in value]
        if is_table(value):
            return {key: self._checked_in(key, item) for key, item in value.items()}
        return value

    def checked_text(self, text: str) -> str:
        """`checked` of a text."""
        if "{" not in text:
            return text
        text = _FORMATTED.sub(self._plain, text) if ":" in text or "!" in text else text
        for name in names_in(text):
            self.check(name)
        return text

    def check(self, name: str) -> None:
        """Raises BadValueError where a placeholder cannot stand here."""
        if name in self.partial:
            raise BadValueError(f"has {{{name}}}, which matrix.include gives only to some combinations")
        if name in self.known or name in self.columns:
            return
        if name.startswith("env."):
            self.known[name] = self._variable(name.removeprefix("env."))
            return
        raise self._unknown(name)

    def _checked_in(self, key: str, item: object) -> object:
        with inside(key):
            return self.checked(item)

    def _variable(self, variable: str) -> str:
        if variable not in self.environ:
            raise BadValueError(f"has {{env.{variable}}}, but {variable} is not set in the environment")
        secret = self.secret is not None and self.secret(variable)
        return marker(f"env.{variable}") if secret else self.environ[variable]

    def _unknown(self, name: str) -> BadValueError:
        if name in self.refused:
            return BadValueError(f"has {{{name}}}, which {self.refused[name]}")
        if name in RUNTIME:
            return BadValueError(
                f"has {{{name}}}, which is known only when a task starts: it may stand in command, env, "
                "resume_command and on_oom"
            )
        hint = did_you_mean(name, [*self.columns, *self.known], form="{{{}}}")
        hint = f"{hint} " if hint else ""
        return BadValueError(f"has {{{name}}}, which is unknown: {hint}write {{{{{name}}}}} for a literal brace")

    def _plain(self, match: re.Match[str]) -> str:
        """A known name with a format would stay as it is written; doubled braces say that it shall."""
        whole, (opens, name, _, closes) = match[0], match.groups()
        known = name in self.columns or name in self.known or name in self.refused
        if whole.startswith("$") or len(opens) != len(closes) or not known:
            return whole
        if len(opens) == 2:
            return whole[1:-1]
        raise BadValueError(
            f"has {whole}, and values take no format: write {{{name}}}, and the values as they are to read"
            f' ("0.50"); write {{{whole}}} for the text itself'
        )


# -- in shell commands: outside quotes values are quoted; elsewhere only those may stand that need no quotes --

HOLE = "\0"
"""Stands in a scanned command for a value."""

quoted = lru_cache(maxsize=65536)(shlex.quote)


class Place(Enum):
    """Where a value stands; its text is what an error message says of it."""

    BARE = "outside quotes"
    QUOTES = "inside quotes"
    UNCLEAR = "behind a backtick, ${…, <<, # or the like"


_ADVICE = {
    Place.QUOTES: "take the quotes away, values are quoted anyway",
    Place.UNCLEAR: "pass it to the command in env, or write the command as a list",
}

_SKIPPED = r"(?s:\\[^\0])|\$\{[\w.:/%^@*#?!+,-]*\}"
_CODE = re.compile(
    rf"(?P<skip>{_SKIPPED}|\$(?![({{'])|<<<|<(?!<)|(?<=[^\n\t ;&|()<>])\#|[^\\'\"`$\#<()\0\w]+)|(?P<case>case\s)|\w+"
    r"|(?P<open>['\"(]|\$\((?!\())|(?P<close>\))|(?P<hole>\0)"
)
_DOUBLE = re.compile(rf"(?P<skip>{_SKIPPED}|\$(?![({{])|[^\\\"`$\0]+)|(?P<open>\$\((?!\())|(?P<close>\")|(?P<hole>\0)")
_SINGLE = re.compile(r"(?P<skip>[^'\0]+)|(?P<close>')|(?P<hole>\0)")
_TOKENS = {"": _CODE, ")": _CODE, '"': _DOUBLE, "'": _SINGLE}
"""By what closes that in which they stand."""


@lru_cache(maxsize=4096)
def places(command: str) -> tuple[Place, ...]:
    """For each HOLE of a command, where it stands. Quotes, backslashes and `$(…)` are known; what else bash reads in a
    way of its own makes all behind it unclear."""
    found: list[Place] = []
    closing, at = [""], 0
    while at < len(command):
        inside = closing[-1]
        match = _TOKENS[inside].match(command, at)
        if match is None or (match.lastgroup == "case" and '"' in closing):
            return (*found, *[Place.UNCLEAR] * command.count(HOLE, at))
        if match.lastgroup == "hole":
            found.append(Place.QUOTES if inside in ("'", '"') else Place.BARE)
        elif match.lastgroup == "open":
            closing.append(match[0] if match[0] in "'\"" else ")")
        elif match.lastgroup == "close" and inside:
            closing.pop()
        at = match.end()
    return tuple(found)


def fill_command(text: str, values: Values, likely: Mapping[str, str]) -> str:
    """A shell command with its values. *likely*: texts of what is filled in at the start, as far as they are known.
    Raises BadValueError for a value that would need quotes where it cannot have them."""
    parts = parse(text)
    where = iter(places("".join([HOLE if isinstance(part, Slot) else part for part in parts])))
    made: list[str] = []
    for part in parts:
        if isinstance(part, str):
            made.append(part)
            continue
        place, value = next(where), as_text(values[part.name])
        waits = "\0" in value
        if place is not Place.BARE:
            _refuse_unsafe(part.name, likely.get(part.name, "") if waits else value, place)
        made.append(quoted(value) if place is Place.BARE and not waits else value)
    return "".join(made)


def fill_shell(command: str, value: Callable[[str], str], *, kept: Collection[str] = ()) -> str:
    """A shell command with its markers filled: values are quoted, but for an empty one that stands inside quotes
    already. Of *kept* placeholders the name stays."""
    if "\0" not in command:
        return command
    pieces = MARKER.split(command)
    filled = pieces[0]
    for name, place, after in zip(pieces[1::2], places(HOLE.join(pieces[::2])), pieces[2::2], strict=True):
        text = f"{{{name}}}" if name in kept else value(name)
        filled += (text if name in kept or (not text and place is not Place.BARE) else quoted(text)) + after
    return filled


def _refuse_unsafe(name: str, value: str, place: Place) -> None:
    if value and quoted(value) != value:
        raise BadValueError(
            f"has {{{name}}} {place.value}, where its value {shown(value)} would need quotes of its own: "
            f"{_ADVICE[place]}"
        )
