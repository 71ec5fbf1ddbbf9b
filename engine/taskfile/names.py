"""Names of tasks: what they are made of, and that no two are the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from .matrix import Grid
from .placeholders import Slot, parse
from .problems import BadValueError
from .values import shown

MAX_BYTES = 120

_GOOD = re.compile(r"[A-Za-z0-9._=,+@][A-Za-z0-9._=,+@-]*(?:/[A-Za-z0-9._=,+@-]+)*")
_BAD_CHARACTER = re.compile(r"[^A-Za-z0-9._=,+@/-]")
_OWN_FILE = re.compile(
    r"(?:.*/)?(?:deck\.log|gpu\d+\.log|latest\.(?:log|err)|attempt-\d+\.[^/]*)(?:/.*)?|\.(?:jobs|snapshots)(?:/.*)?"
)
_DOTS = re.compile(r"(?:.*/)?\.\.?(?:/.*)?")


def check_name(name: str) -> None:
    """Raises BadValueError for a name that a task cannot have. It is also a folder's, below the log folder."""
    if _GOOD.fullmatch(name) is None:
        raise BadValueError(f"{shown(name)} {_why(name)}")
    if len(name) > MAX_BYTES:
        raise BadValueError(f"{shown(name)} has {len(name)} bytes: at most {MAX_BYTES} are allowed")
    if "." in name and (_DOTS.fullmatch(name) or _OWN_FILE.fullmatch(name)):
        raise BadValueError(f"{shown(name)} is taken in the log folder")


def _why(name: str) -> str:
    if not name:
        return "is empty"
    bad = _BAD_CHARACTER.search(name)
    if bad is None:
        return 'begins with "-", or has an empty part beside a slash'
    character = "a space" if bad[0] == " " else shown(bad[0])
    return f"has {character} in it: use letters, digits and . _ - = , + @ /"


def clash(template: str, names: Sequence[str], grid: Grid) -> str:
    """What to say when two tasks of one entry have the same name."""
    name, count = Counter(names).most_common(1)[0]
    used = {part.name for part in parse(template) if isinstance(part, Slot)}
    missing = [axis[0] for axis in grid.axes if not used.intersection(axis)]
    if not missing:
        return f"{shown(name)} is made by {count} combinations: their values are the same, or run into each other"
    lacking = ", ".join(f"{{{key}}}" for key in missing)
    proposal = "-".join([template, *(f"{{{key}}}" for key in missing)])
    return f'has no {lacking}, so {count} tasks would be {shown(name)}: write name = "{proposal}"'


def taken(name: str, lines: Mapping[str, int]) -> str:
    return f"{shown(name)} is taken by the task in line {lines[name]}"
