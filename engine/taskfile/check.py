"""Reads tables by the schema and notes what is wrong with them, line by line; names of tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from .kinds import Table
from .problems import BadValueError, Problems, did_you_mean
from .schema import DECK, DISTRIBUTED, LADDERS, MEANT, MEANT_OF_DECK, PRUNE, SLURM, TASK, TOP, WATCH
from .source import Path, Source
from .values import as_text, is_list, is_table, kind_of, shown

MAX_BYTES = 120
"""Of a task's name."""

_GOOD = re.compile(r"[A-Za-z0-9._=,+@][A-Za-z0-9._=,+@-]*(?:/[A-Za-z0-9._=,+@-]+)*")
_BAD_CHARACTER = re.compile(r"[^A-Za-z0-9._=,+@/-]")
_OWN_FILE = re.compile(
    r"(?:.*/)?(?:deck\.log|gpu\d+\.log|latest\.(?:log|err)|attempt-\d+\.[^/]*)(?:/.*)?|\.(?:jobs|snapshots)(?:/.*)?"
)
_DOTS = re.compile(r"(?:.*/)?\.\.?(?:/.*)?")

_LISTS = {name for name, key in TASK.items() if "'array'" in str(key.kind.schema)}
_SWALLOWING: Mapping[str, Table] = {
    "env": {}, "matrix": {}, "watch": WATCH, "prune": PRUNE, "slurm": SLURM, "metrics": {}, "distributed": DISTRIBUTED,
}  # fmt: skip
_HOLDERS = frozenset((*_SWALLOWING, *LADDERS))


class Checker(Problems):
    """Notes problems of a file's tables under their lines."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.shown)
        self.source = source

    def at(self, path: Path, text: str, *, where: str | None = None) -> None:
        """Note a problem at the line of *path*. *where*: the table that this begins with."""
        self.add(self.source.lines.of(*path), text, where=table_of(path) if where is None else where)

    def note(self, error: BadValueError, path: Path) -> None:
        """Note what is wrong with the key at *path*, at the line of the part of it that the error is about."""
        name = ".".join((str(path[-1]), *error.inside))
        self.at((*path, *error.inside), f"{name} {error.words}")

    def table(self, value: object, path: Path) -> Mapping[str, object]:
        """*value* as a table; an empty one, and a problem, when it is none."""
        if is_table(value):
            return value
        self.at(path, f"must be a table, got {kind_of(value)}")
        return {}

    def unknown(self, keys: Iterable[str], table: Table, path: Path, *, where: str | None = None) -> None:
        """Note the keys that *table* does not have."""
        for key in keys:
            if key not in table:
                self.at((*path, key), unknown_key(key, table), where=table_of(path) if where is None else where)

    def read(self, values: Mapping[str, object], table: Table, path: Path) -> dict[str, object]:
        """The values that are right, as the engine keeps them."""
        self.unknown(values, table, path)
        found: dict[str, object] = {}
        for key, value in values.items():
            if key in table:
                try:
                    found[key] = table[key].kind.read(value)
                except BadValueError as error:
                    self.note(error, (*path, key))
        return found

    def swallowed(self, task: Mapping[str, object], path: Path, *, where: str | None = None) -> bool:
        """Note the first of a task's keys that a [header] above it took in; *path*: of the task, or of [defaults]."""
        for inside in _swallowed(task):
            *header, key = (*path, *inside)
            if self.source.lines.has_header(*header):
                name = ".".join(part for part in header if isinstance(part, str))
                words = f"{key} stands below [{name}], so it is not the task's {key}: move it above that line"
                self.at((*path, *inside), words, where=where)
                return True
        return False


def table_of(path: Path) -> str:
    """How messages name the table that a path begins with: "[deck]", "[profile.smoke]"."""
    match path:
        case ():
            return ""
        case ("profile", name, *_):
            return f"[profile.{name}]"
        case ("gpu_profile", *_):
            return "[[gpu_profile]]"
        case _:
            return f"[{path[0]}]"


def unknown_key(key: str, table: Table) -> str:
    """What to say of a key that *table* does not have."""
    meant = MEANT.get(key) if table is TASK else MEANT_OF_DECK.get(key) if table is DECK else None
    if table in (TASK, TOP) and key in DECK:
        hint = "it is a key of [deck]"
    elif table in (DECK, TOP) and key in TASK:
        hint = "it is a key of tasks, and of [defaults] for all of them"
    else:
        hint = f"did you mean {meant}?" if meant else did_you_mean(key, list(table))
        if not hint and table in (DECK, TOP):
            hint = did_you_mean(key, list(TASK), form="the task key {}")
    return f'unknown key "{key}"' + (f": {hint}" if hint else "")


def check_name(name: str) -> None:
    """Raises BadValueError for a name that a task cannot have. It is also a folder's, below the log folder."""
    if _GOOD.fullmatch(name) is None:
        raise BadValueError(f"{shown(name)} {_why(name)}")
    if len(name) > MAX_BYTES:
        raise BadValueError(f"{shown(name)} has {len(name)} bytes: at most {MAX_BYTES} are allowed")
    if _DOTS.fullmatch(name):
        raise BadValueError(f"{shown(name)} has a part of dots alone, which is another folder")
    if _OWN_FILE.fullmatch(name):
        raise BadValueError(f"{shown(name)} is taken in the log folder")


def _why(name: str) -> str:
    if not name:
        return "is empty"
    bad = _BAD_CHARACTER.search(name)
    if bad is None:
        return 'begins with "-", or has an empty part beside a slash'
    character = "a space" if bad[0] == " " else shown(bad[0])
    return f"has {character} in it: use letters, digits and . _ - = , + @ /"


def _swallowed(entry: Mapping[str, object]) -> Iterator[Path]:
    """Paths of keys in a task's tables that look like the task's own: `[task.env]` and then `gpus = 2`."""
    if _HOLDERS.isdisjoint(entry):
        return
    yield from _swallowed_by_lists(entry)
    for name, known in _SWALLOWING.items():
        table = entry.get(name)
        if not is_table(table):
            continue
        for key, value in table.items():
            if key in TASK and key not in known and not _meant(name, key, value):
                yield (name, key)
            if name == "metrics" and is_table(value):
                yield from ((name, key, inner) for inner in value if inner in TASK)


def _swallowed_by_lists(entry: Mapping[str, object]) -> Iterator[Path]:
    """In `[[task.matrix.include]]` a key of that name may be meant: then the task says {key} somewhere."""
    matrix = entry.get("matrix")
    for ladder in LADDERS:
        for at, rung in _listed(entry, ladder):
            env = rung.get("env")
            yield from ((ladder, at, "env", key) for key in (env if is_table(env) else ()) if key in TASK)
    for at, row in _listed(matrix if is_table(matrix) else {}, "include"):
        said = [key for key in row if key in TASK and is_table(matrix) and key not in matrix]
        yield from (("matrix", "include", at, key) for key in said if f"{{{key}}}" not in as_text(entry))


def _listed(table: Mapping[str, object], key: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    found = table.get(key)
    return ((at, item) for at, item in enumerate(found if is_list(found) else ()) if is_table(item))


def _meant(table: str, key: str, value: object) -> bool:
    """A matrix may have an axis called "gpus", a metric may be called "retries"."""
    if table == "matrix":
        return is_list(value) and key not in _LISTS
    return table == "metrics" and is_table(value)
