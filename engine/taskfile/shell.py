"""Values in shell commands: outside quotes they are quoted; elsewhere only those may stand that need no quotes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import lru_cache

from .placeholders import MARKER, Slot, Values, parse
from .problems import BadValueError
from .values import as_text, shown

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
