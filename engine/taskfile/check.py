"""Reads tables by the schema and notes what is wrong with them, line by line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import tables
from .lines import Path
from .problems import BadValueError, Problems, did_you_mean
from .schema import DECK, MEANT, TASK, Table
from .source import Source
from .values import is_table, kind_of


@dataclass(frozen=True, slots=True)
class Checker:
    """Notes problems of a file's tables under their lines."""

    source: Source
    problems: Problems

    def note(self, error: BadValueError, path: Path, *, key: str, where: str) -> None:
        """Note what is wrong with *key*, at the line of *path* or of the part of it that the error is about."""
        line = self.source.lines.of(*path, *error.inside)
        name = ".".join((key, *error.inside))
        self.problems.add(line, f"{name} {error.words}", where=where)

    def table(self, value: object, path: Path, *, where: str) -> Mapping[str, object]:
        """*value* as a table; an empty one, and a problem, when it is none."""
        if is_table(value):
            return value
        self.problems.add(self.source.lines.of(*path), f"must be a table, got {kind_of(value)}", where=where)
        return {}

    def unknown(self, keys: Mapping[str, object], table: Table, path: Path, *, where: str) -> None:
        """Note the keys that *table* does not have."""
        for key in keys:
            if key not in table:
                line = self.source.lines.of(*path, key)
                self.problems.add(line, unknown_key(key, table), where=where)

    def read(self, values: Mapping[str, object], table: Table, path: Path, *, where: str) -> dict[str, object]:
        """The values that are right, as the engine keeps them."""
        self.unknown(values, table, path, where=where)
        found: dict[str, object] = {}
        for key, value in values.items():
            if key in table:
                try:
                    found[key] = table[key].kind.read(value)
                except BadValueError as error:
                    self.note(error, (*path, key), key=key, where=where)
        return found

    def swallowed(self, task: Mapping[str, object], path: Path, *, where: str) -> bool:
        """Note the first of a task's keys that a [header] above it took in; *path*: of the task, or of [defaults]."""
        for inside in tables.swallowed(task):
            *header, key = (*path, *inside)
            if self.source.lines.has_header(*header):
                name = ".".join(part for part in header if isinstance(part, str))
                words = f"{key} stands below [{name}], so it is not the task's {key}: move it above that line"
                self.problems.add(self.source.lines.of(*path, *inside), words, where=where)
                return True
        return False


def unknown_key(key: str, table: Table) -> str:
    """What to say of a key that *table* does not have."""
    meant = MEANT.get(key) if table is TASK else None
    if table is TASK and key in DECK:
        hint = "it is a key of [deck]"
    elif table is DECK and key in TASK:
        hint = "it is a key of tasks, and of [defaults] for all of them"
    else:
        hint = f"did you mean {meant}?" if meant else did_you_mean(key, list(table))
    return f'unknown key "{key}"' + (f": {hint}" if hint else "")
