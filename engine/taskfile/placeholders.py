"""Placeholders: what they are in a text, and templates compiled once per entry and filled once per task."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple, cast

from .problems import BadValueError, did_you_mean
from .quoting import HOLE, Place, places
from .values import as_text, is_list, is_table, shown

Row = tuple[str, ...]
"""The texts of one task's columns: matrix keys, then task, shard and shards."""

Fill = Callable[[Row], str]
Template = str | Fill
"""Text that is the same for every task of an entry, or what makes it from a task's row."""

RUNTIME = ("attempt", "gpu_ids", "num_gpus", "cpus", "run_dir", "log_dir", "run_id", "python")
"""Known only when an attempt starts; in a `Work` they stand as `marker(name)`."""

BUILT_IN = frozenset({*RUNTIME, "task", "deck", "nodes", "shard", "shards"})

_NAME = r"(?:env\.)?[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(rf"\$\{{{_NAME}\}}|\{{\{{({_NAME})\}}\}}|\{{({_NAME})\}}")
_FORMATTED = re.compile(rf"\$?(\{{\{{?)({_NAME})(:[^{{}}\n]*|![rsa](?::[^{{}}\n]*)?)(\}}\}}?)")
MARKER = re.compile(rf"\0\{{({_NAME})\}}")
"""What `marker` makes; the group is the name."""

quoted = lru_cache(maxsize=65536)(shlex.quote)


class Slot(NamedTuple):
    """A placeholder in a text."""

    name: str


def marker(name: str) -> str:
    """What stands in a `Work` for a placeholder that is filled when an attempt starts. NUL occurs nowhere else."""
    return f"\0{{{name}}}"


def fill_markers(text: str, value: Callable[[str], str]) -> str:
    """Replace every marker by `value(name)`."""
    return MARKER.sub(lambda match: value(match[1]), text) if "\0" in text else text


def fill_shell(command: str, value: Callable[[str], str], *, kept: Collection[str] = ()) -> str:
    """The same in a shell command: values are quoted, but for an empty one that stands inside quotes already. Of *kept*
    placeholders the name stays."""
    if "\0" not in command:
        return command
    pieces = MARKER.split(command)
    filled = pieces[0]
    for name, place, after in zip(pieces[1::2], places(HOLE.join(pieces[::2])), pieces[2::2], strict=True):
        text = f"{{{name}}}" if name in kept else value(name)
        filled += (text if name in kept or (not text and place not in _QUOTED) else quoted(text)) + after
    return filled


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


def escaped(text: str) -> str:
    """What `parse` reads as *text* and nothing else."""

    def double(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith("$") else f"{{{match[0]}}}"

    return _TOKEN.sub(double, text)


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
        return [part.name for part in parse(value) if isinstance(part, Slot)]
    items = value.values() if is_table(value) else value if is_list(value) else ()
    return [name for item in items for name in names_in(item)]


@dataclass(slots=True)
class Scope:
    """What the placeholders of one entry can stand for."""

    constants: Mapping[str, object]
    """The same for every task of the entry: [vars], {deck}, {nodes}."""
    environ: Mapping[str, str]
    columns: Mapping[str, int] = field(default_factory=dict[str, int])
    """Position in a task's row."""
    samples: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Every text that a column can have, and what is likely filled in at the start."""
    runtime: frozenset[str] = frozenset()
    """Those built-ins that may stay for the start of an attempt."""
    secret: Callable[[str], bool] = lambda _: False
    """Whether {env.NAME} is to be read only at the start, because its value is no part of what the work is."""
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that are known but may not stand here, and why."""
    partial: frozenset[str] = frozenset()
    """Columns without a value in some combination."""

    def constant(self, name: str) -> tuple[object] | None:
        """The value of a name that is the same for every task, or None."""
        if name in self.constants:
            return (self.constants[name],)
        if not name.startswith("env."):
            return None
        variable = name.removeprefix("env.")
        if variable not in self.environ:
            raise BadValueError(f"has {{{name}}}, but {variable} is not set in the environment")
        if self.runtime and self.secret(variable):
            return (marker(name),)
        return (self.environ[variable],)

    def refuse(self, name: str) -> BadValueError:
        """Why a name that is neither a constant nor a column cannot stand here."""
        if name in self.refused:
            return BadValueError(f"has {{{name}}}, which {self.refused[name]}")
        if name in RUNTIME:
            return BadValueError(
                f"has {{{name}}}, which is known only when a task starts: it may stand in command, env, "
                "resume_command and on_oom"
            )
        known = [*self.columns, *self.constants, *self.runtime]
        hint = did_you_mean(name, known, form="{{{}}}")
        hint = f"{hint} " if hint else ""
        return BadValueError(f"has {{{name}}}, which is unknown: {hint}write {{{{{name}}}}} for a literal brace")

    def knows(self, name: str) -> bool:
        return name in self.columns or name in self.constants or name in self.runtime or name in self.refused

    def check_partial(self, name: str) -> None:
        if name in self.partial:
            raise BadValueError(f"has {{{name}}}, which matrix.include gives only to some combinations")


def lone(text: str) -> str | None:
    """The name in a text that is nothing but one placeholder."""
    parts = parse(text) if text[:1] == "{" else ()
    return parts[0].name if len(parts) == 1 and isinstance(parts[0], Slot) else None


def template(text: str, scope: Scope) -> Template:
    """Compile a text. Raises BadValueError for a name that is unknown or may not stand here."""
    return text if "{" not in text else _joined(_resolved(parse(without_formats(text, scope)), scope), str)


def shell_template(text: str, scope: Scope) -> Template:
    """Compile a shell command: values are quoted, and where quotes would not help only those stand that need none."""
    if "{" not in text:
        return text
    parts = parse(without_formats(text, scope))
    found = iter(places("".join(HOLE if isinstance(part, Slot) else part for part in parts)))
    where = [next(found) if isinstance(part, Slot) else None for part in parts]
    resolved: list[str | int] = []
    for part, place in zip(parts, where, strict=True):
        if not isinstance(part, Slot) or place is None:
            resolved.append(cast("str", part))
            continue
        value = _resolve(part.name, scope)
        _refuse_unsafe(part.name, value, scope, place)
        raw = isinstance(value, int) or "\0" in value or place not in _QUOTED
        resolved.append(value if raw else quoted(value))
    return _joined(resolved, quoted, [place is not None and place not in _QUOTED for place in where])


_QUOTED = (Place.BARE, Place.COMMENT)
"""Where a value is quoted."""


def _stands_raw(text: str, place: Place) -> bool:
    """A comment is harmed by a line break only."""
    return "\n" not in text if place is Place.COMMENT else quoted(text) == text


def _refuse_unsafe(name: str, found: str | int, scope: Scope, place: Place) -> None:
    if place is Place.BARE:
        return
    texts = scope.samples.get(name, ()) if isinstance(found, int) or "\0" in found else [found]
    if name.startswith("env."):
        texts = [scope.environ[name.removeprefix("env.")]]
    unsafe = next((text for text in texts if text and not _stands_raw(text, place)), None)
    if unsafe is None:
        return
    advice = "pass it to the command in env, or write the command as a list"
    if place is Place.QUOTES:
        advice = "take the quotes away, values are quoted anyway"
    raise BadValueError(
        f"has {{{name}}} {place.value}, where its value {shown(unsafe)} would need quotes of its own: {advice}"
    )


def without_formats(text: str, scope: Scope) -> str:
    """*text*, with `{{name:.2f}}` as the text {name:.2f}. Raises BadValueError where a known name has a format: it
    would stay as it is written."""

    def look(match: re.Match[str]) -> str:
        whole, (opens, name, _, closes) = match[0], match.groups()
        if whole.startswith("$") or len(opens) != len(closes) or not scope.knows(name):
            return whole
        if len(opens) == 2:
            return whole[1:-1]
        raise BadValueError(
            f"has {whole}, and values take no format: write {{{name}}}, and the values as they are to read"
            f' ("0.50"); write {{{whole}}} for the text itself'
        )

    return _FORMATTED.sub(look, text) if ":" in text or "!" in text else text


def _resolve(name: str, scope: Scope) -> str | int:
    """The text of a constant or a marker, or the position of a column."""
    position = scope.columns.get(name)
    if position is not None:
        scope.check_partial(name)
        return position
    constant = scope.constant(name)
    if constant is not None:
        return as_text(constant[0])
    if name in scope.runtime:
        return marker(name)
    raise scope.refuse(name)


def _resolved(parts: Sequence[str | Slot], scope: Scope) -> list[str | int]:
    return [_resolve(part.name, scope) if isinstance(part, Slot) else part for part in parts]


def _joined(parts: Sequence[str | int], each: Callable[[str], str], raw: Sequence[bool] = ()) -> Template:
    """One function for all columns of a text. *each* is applied to a column's value unless *raw* says otherwise."""
    positions = [part for part in parts if isinstance(part, int)]
    if not positions:
        return "".join(part for part in parts if isinstance(part, str))
    form = "".join("%s" if isinstance(part, int) else part.replace("%", "%%") for part in parts)
    if each is str:
        return _one_column(form, positions[0]) if len(positions) == 1 else _columns(form, itemgetter(*positions))
    plain = [raw[index] if raw else False for index, part in enumerate(parts) if isinstance(part, int)]

    def fill(row: Row) -> str:
        texts = (row[at] if bare else each(row[at]) for at, bare in zip(positions, plain, strict=True))
        return form % tuple(texts)

    return fill


def _one_column(form: str, position: int) -> Fill:
    """Tasks with the same value share one text."""
    made: dict[str, str] = {}

    def fill(row: Row) -> str:
        value = row[position]
        text = made.get(value)
        if text is None:
            text = made[value] = form % (value,)
        return text

    return fill


def _columns(form: str, getter: Callable[[Row], object]) -> Fill:
    return lambda row: form % getter(row)


@lru_cache(maxsize=1024)
def ignoring(globs: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether one of *globs* matches a variable's name."""
    pattern = re.compile("|".join(fnmatch.translate(glob) for glob in globs) or r"(?!)")
    return lambda name: pattern.match(name) is not None
