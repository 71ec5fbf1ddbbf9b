"""One [[task]] table over [defaults], and where each of its keys stands in the file."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from .check import unknown_key
from .context import Context
from .layers import table_of
from .moving import Moving, compiled, overlaid
from .placeholders import Scope, has_slots
from .problems import BadValueError, SkipError
from .schema import MERGED, TASK
from .values import is_table


class Said:
    """What a task file says about one entry."""

    def __init__(self, context: Context, index: int, own: Mapping[str, object], line: int) -> None:
        self.context = context
        self.index = index
        self.own = own
        self.line = line
        self.failed = False
        defaults = context.layers.defaults
        self.all: Mapping[str, object] = {**defaults, **own} if defaults else own
        for key in MERGED if defaults else ():
            below, above = defaults.get(key), own.get(key)
            if is_table(below) and is_table(above):
                self.all = {**self.all, key: {**below, **above}}

    @property
    def where(self) -> str:
        """How messages name the entry."""
        name = self.all.get("name")
        return f'task "{name}"' if isinstance(name, str) else f"task {self.index + 1}"

    def path(self, key: str, *inside: str) -> tuple[str | int, ...]:
        """Where a key, or a part of it, was said: here or in [defaults]."""
        own = self.own.get(key)
        elsewhere = key in MERGED and inside and is_table(own) and inside[0] not in own
        if key in self.own and not elsewhere:
            return ("task", self.index, key, *inside)
        if key in self.context.layers.defaults:
            return (*self.context.layers.path("defaults", key), *inside)
        return ("task", self.index)

    def note(self, error: BadValueError, key: str = "", *, where: str = "") -> None:
        """Note what is wrong with *key*, else with what the error is inside of, else with the entry itself."""
        self.failed = True
        inside = error.inside
        if not key and inside:
            key, inside = inside[0], inside[1:]
        path = self.path(key, *inside)
        line = self.context.checker.source.lines.of(*path) if key else self.line
        if key and path[0] != "task" and not has_slots(self.all[key]):
            where = table_of(path)
        name = ".".join((key, *inside))
        self.context.checker.problems.add(line or self.line, f"{name} {error.words}".strip(), where=where or self.where)

    @contextmanager
    def reading(self, key: str) -> Generator[None]:
        """A problem inside is noted under *key*."""
        try:
            yield
        except BadValueError as error:
            self.note(error, key)

    def alone(self, key: str, scope: Scope, default: object) -> object:
        """A key that must be the same for all tasks of the entry, read."""
        if key not in self.all:
            return default
        with self.reading(key):
            made = compiled(self.all[key], scope, textual=TASK[key].kind.textual)
            if isinstance(made, Moving):
                raise BadValueError("must be the same for all tasks of the entry")
            return self.context.read(key, made)
        return default

    def layers(self, key: str) -> list[object]:
        """The tables of a merged key, lowest first: several only where a placeholder stands for one of them."""
        below, own = self.context.layers.defaults.get(key), self.own.get(key)
        apart = below is not None and own is not None and not (is_table(below) and is_table(own))
        return [below, own] if apart else [self.all[key]] if key in self.all else []

    def compiled_table(self, key: str, scope: Scope) -> object:
        """A merged key, compiled: a table, or a `Moving` that makes one."""
        made = [compiled(raw, scope, textual=True) for raw in self.layers(key)]
        return made[0] if len(made) == 1 else overlaid(made)

    def check_keys(self) -> None:
        """Note unknown, misplaced and missing keys. Raises SkipError where most keys are not where they belong."""
        lines = self.context.checker.source.lines
        for key in self.own:
            if key not in TASK:
                line = lines.of("task", self.index, key)
                self.context.checker.problems.add(line, unknown_key(key, TASK), where=self.where)
                self.failed = True
        if self.context.checker.swallowed(self.own, ("task", self.index), where=self.where):
            raise SkipError
        for key in ("name", "command"):
            if key not in self.all:
                self.note(BadValueError(f"{key} is missing"))

    def later(self, key: str, words: str) -> None:
        """Note something that this version cannot do."""
        line = self.context.checker.source.lines.of(*self.path(key))
        self.context.later.append((line, self.where, words))
