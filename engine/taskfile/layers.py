"""Puts the tables of a file, the chosen profile and the run options on top of each other, and each entry on these."""

from __future__ import annotations

import os
import re
import tomllib
from collections import ChainMap
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time
from typing import cast

from .check import Checker, table_of
from .find import STATE_NAME, STATE_NAME_WORDS
from .kinds import IDENTIFIER, Table
from .options import RunOptions
from .placeholders import BUILT_IN, Scope, fill, has_slots, names_in
from .problems import BadValueError, SkipError, did_you_mean, inside
from .schema import DISTRIBUTED, MERGED, OF_ALL, PROFILE, SLURM, TABLES, TASK, TOP
from .source import MAX_DIGITS, Path, line_of_number
from .values import MAX_DEPTH, SourceFloat, as_text, deeper, has_nul, is_list, is_table

_MAX_FILLED = 1_000_000
"""Characters that placeholders may put into [vars]: each line of `b = "{a}{a}"` doubles what is above it."""


@dataclass(slots=True)
class Layers:
    """The tables of a file after profile and --set, and where each key was said."""

    deck: dict[str, object] = field(default_factory=dict[str, object])
    vars: dict[str, object] = field(default_factory=dict[str, object])
    vars_as_written: dict[str, object] = field(default_factory=dict[str, object])
    """Before anything was filled in."""
    defaults: dict[str, object] = field(default_factory=dict[str, object])
    slurm: dict[str, object] = field(default_factory=dict[str, object])
    distributed: dict[str, object] = field(default_factory=dict[str, object])
    notify: dict[str, object] = field(default_factory=dict[str, object])
    budget: dict[str, object] = field(default_factory=dict[str, object])
    shared: dict[str, Mapping[str, object]] = field(default_factory=dict[str, Mapping[str, object]])
    """Keys of tasks that [slurm] and [distributed] are below, as far as these say something of tasks."""
    origins: dict[tuple[str, str], Path] = field(default_factory=dict[tuple[str, str], Path])

    def path(self, table: str, key: str) -> Path:
        """The path in the file of a key of "deck", "vars" or "defaults"; empty where --set gave it."""
        return self.origins.get((table, key), (table, key))

    def read(self, checker: Checker, name: str, known: Table) -> dict[str, object]:
        """What a table says, where it is right, as the engine keeps it."""
        found: dict[str, object] = {}
        for key, value in cast("Mapping[str, object]", getattr(self, name)).items():
            found |= checker.read({key: value}, known, self.path(name, key)[:-1])
        return found


def layered(checker: Checker, options: RunOptions) -> Layers:
    """Merge what a file says at its top level; everything wrong with that is among the problems. [vars] are as written:
    see `fill_vars`."""
    data = checker.source.data
    checker.unknown(data, TOP, ())
    layers = Layers()
    for name in ("deck", "vars", "defaults", "slurm", "distributed", "notify", "budget"):
        _overlay(layers, name, checker.table(data.get(name, {}), (name,)), (name,))
    _profile(layers, checker, options.profile)
    _set(layers, checker, options)
    for key, said, known in (("slurm", layers.slurm, SLURM), ("distributed", layers.distributed, DISTRIBUTED)):
        if of_tasks := {name: value for name, value in said.items() if name in known and name not in OF_ALL}:
            layers.shared[key] = of_tasks
    return layers


def _overlay(layers: Layers, name: str, values: Mapping[str, object], path: Path) -> None:
    target = cast("dict[str, object]", getattr(layers, name))
    for key, value in values.items():
        below = target.get(key)
        if name == "defaults" and key in MERGED and is_table(value) and is_table(below):
            target[key] = {**below, **value}
        else:
            target[key] = value
        layers.origins[name, key] = (*path, key)


def _profile(layers: Layers, checker: Checker, name: str | None) -> None:
    profiles = checker.table(checker.source.data.get("profile", {}), ("profile",))
    for profile, value in profiles.items():
        path: Path = ("profile", profile)
        if not STATE_NAME.fullmatch(profile):
            checker.at(path, STATE_NAME_WORDS)
        table = checker.table(value, path)
        checker.unknown(table, PROFILE, path)
        for key in PROFILE:
            values = checker.table(table.get(key, {}), (*path, key))
            if key == "defaults":
                checker.swallowed(values, (*path, key))
            if profile == name:
                _overlay(layers, key, values, (*path, key))
            else:
                _check_unused(checker, key, values, (*path, key))
    if name is not None and name not in profiles:
        hint = did_you_mean(name, list(profiles)) or "the file has " + (", ".join(profiles) or "none")
        checker.add(0, f"--profile {name}: there is no [profile.{name}]: {hint}")


def _check_unused(checker: Checker, key: str, values: Mapping[str, object], path: Path) -> None:
    """A table of a profile that is not chosen: what is wrong with it whatever placeholders stand for."""
    known = {**TABLES, "defaults": TASK}.get(key)
    if known is not None:
        plain = {name: value for name, value in values.items() if key == "deck" or not has_slots(value)}
        checker.read(plain, known, path)
        return
    for name in values:
        try:
            _check_var(name)
        except BadValueError as error:
            checker.note(error, (*path, name))


def _set(layers: Layers, checker: Checker, options: RunOptions) -> None:
    for key, text in options.set.items():
        if key not in layers.vars and (line := _matrix_line(checker, key)):
            words = f"{key} is a key of matrix (line {line}), not of [vars]: choose with --only {key}=VALUE"
            checker.add(0, f"--set {key}={text}: {words}")
        elif not IDENTIFIER.fullmatch(key):
            checker.add(0, f"--set {key}={text}: {key!r} cannot be the name of a placeholder")
        elif key not in layers.vars and f"{{{key}}}" not in checker.source.text:
            hint = did_you_mean(key, list(layers.vars)) or "it is not in [vars], and nothing uses it"
            checker.add(0, f"--set {key}={text}: the file has no {{{key}}}: {hint}")
        elif has_nul(set_value(text)):
            checker.add(0, f"--set {key}: no text may hold a NUL character")
        else:
            layers.vars[key] = set_value(text)
            layers.origins["vars", key] = ()


def _matrix_line(checker: Checker, key: str) -> int:
    """Where *key* is an axis of a matrix; 0: nowhere."""
    entries = checker.source.data.get("task")
    for at, entry in enumerate(entries if is_list(entries) else ()):
        matrix = entry.get("matrix") if is_table(entry) else None
        if is_table(matrix) and key in matrix:
            return checker.source.lines.of("task", at, "matrix", key)
    return 0


def set_value(text: str) -> object:
    """What `--set K=TEXT` means: a TOML value where it is one, else the text itself, as dates are."""
    if "\n" in text or "#" in text or line_of_number(text, MAX_DIGITS):
        return text
    try:
        value: object = tomllib.loads(f"x = {text}", parse_float=SourceFloat)["x"]
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, (date, time)) else value


def fill_vars(layers: Layers, checker: Checker, environ: Mapping[str, str]) -> None:
    """Fill in `~` and placeholders for other vars and {env.NAME} in [vars]. *environ*: what tasks get."""
    layers.vars_as_written = layers.vars
    filling = _Filling(layers.vars, environ, {})
    for key in layers.vars:
        try:
            _check_var(key)
            filling.resolve(key)
        except BadValueError as error:
            path = layers.path("vars", key)
            checker.at(path, f"{key} {error.words}", where=table_of(path) or "--set")
            filling.done.setdefault(key, "")
    layers.vars = filling.done


def _check_var(key: str) -> None:
    if not IDENTIFIER.fullmatch(key):
        raise BadValueError(f"cannot stand in braces: call it {re.sub('[^A-Za-z0-9_]', '_', key)}")
    if key in BUILT_IN:
        raise BadValueError(f"is taken: {{{key}}} means something already")


def expanded_with(
    changes: Mapping[str, object],
    written: Mapping[str, object],
    filled: Mapping[str, object],
    environ: Mapping[str, str],
) -> dict[str, object]:
    """All vars with *changes* in place of what some of them say: those that are made of these follow.

    *written*: [vars] before, *filled*: after anything was filled in. In a change its own name means what that was
    before: `flags = "{flags} --small"`. Raises BadValueError inside the var that cannot be filled in.
    """
    names = {key: names_in(value) for key, value in written.items()}
    moved = set(changes)
    while more := {key for key in names if key not in moved and not moved.isdisjoint(names[key])}:
        moved |= more
    done = {key: value for key, value in filled.items() if key not in moved}
    filling = _Filling({**written, **changes}, environ, done, {key: filled[key] for key in changes if key in filled})
    for key in [*changes, *moved]:
        with inside(key):
            filling.resolve(key)
    return filling.done


@dataclass(slots=True)
class _Filling:
    """Vars on their way from what is written to what it means."""

    written: Mapping[str, object]
    environ: Mapping[str, str]
    done: dict[str, object]
    before: Mapping[str, object] = field(default_factory=dict[str, object])
    """What a var that is changed was: its own name in it."""
    left: int = _MAX_FILLED

    def resolve(self, key: str, above: tuple[str, ...] = ()) -> object:
        """The value of a var; *above*: the vars that it is wanted for. Raises BadValueError inside it."""
        if key in self.done:
            return self.done[key]
        if key in above:
            raise BadValueError("is made of itself: " + " → ".join((*above[above.index(key) :], key)))
        if len(above) > MAX_DEPTH:
            raise BadValueError(f"is made of vars that are made of others, more than {MAX_DEPTH} in a row")
        value, known = self.written[key], dict[str, object]()
        for name in names_in(value):
            if name == key and key in self.before:
                known[name] = self.before[key]
            elif name in self.written:
                known[name] = self.resolve(name, (*above, key))
            self.left -= len(as_text(known.get(name, "")))
            if self.left < 0:
                raise BadValueError(f"is too long: placeholders put more than {_MAX_FILLED:,} characters into [vars]")
        scope = Scope(ChainMap(known, self.done), self.environ)
        made = _expanded_home(fill(scope.checked(value), scope.known))
        if deeper(made, MAX_DEPTH):
            raise BadValueError(f"is nested more than {MAX_DEPTH} deep")
        self.done[key] = made
        return made


def _expanded_home(value: object) -> object:
    """A leading `~` expanded in every text of a value."""
    if isinstance(value, str):
        return os.path.expanduser(value) if value.startswith("~") else value
    if is_table(value):
        return {key: _expanded_home(item) for key, item in value.items()}
    return [_expanded_home(item) for item in value] if is_list(value) else value


class RawEntry:
    """What a task file says about one entry."""

    def __init__(self, checker: Checker, layers: Layers, index: int, own: Mapping[str, object], line: int) -> None:
        self.checker = checker
        self.layers = layers
        self.index = index
        self.own = own
        self.line = line
        self.wrong: set[str] = set()
        """Keys with mistakes: what belongs to them is not looked at further."""
        self.values: dict[str, object] = {**layers.defaults, **own}
        self.apart: set[str] = set()
        """Merged keys with a placeholder for one of their tables: the value is a list of these, the lowest first."""
        for key in MERGED:
            said = [table[key] for table in (layers.shared, layers.defaults, own) if key in table]
            if len(said) > 1 and all(map(is_table, said)):
                self.values[key] = {name: item for table in said if is_table(table) for name, item in table.items()}
            elif len(said) > 1:
                self.values[key] = said
                self.apart.add(key)
            elif said:
                self.values[key] = said[0]

    @property
    def where(self) -> str:
        """How messages name the entry."""
        name = self.values.get("name")
        return f'task "{name}"' if isinstance(name, str) else f"task {self.index + 1}"

    def path(self, key: str, *inside: str) -> Path:
        """Where a key, or a part of it, was said: here, in [defaults], or in the table of that name."""
        return self._place(key, *inside)[1]

    def _place(self, key: str, *inside: str) -> tuple[str, Path]:
        for name, table in (("task", self.own), ("defaults", self.layers.defaults)):
            value = table.get(key)
            elsewhere = key in MERGED and inside and is_table(value) and inside[0] not in value
            if key in table and not elsewhere:
                path = ("task", self.index, key) if name == "task" else self.layers.path(name, key)
                return name, (*path, *inside)
        if inside and key in self.layers.shared:
            return key, (*self.layers.path(key, inside[0]), *inside[1:])
        return "task", ("task", self.index)

    def note(self, error: BadValueError, key: str, *, where: str = "") -> None:
        """Note what is wrong with *key*."""
        self.wrong.add(key)
        table, path = self._place(key, *error.inside)
        line = self.checker.source.lines.of(*path)
        name = ".".join(error.inside if table == key else (key, *error.inside))
        if table == key or (table == "defaults" and not has_slots(self.values[key])):
            where = table_of(path)
        self.checker.add(line or self.line, f"{name} {error.words}".strip(), where=where or self.where)

    @contextmanager
    def noting(self, key: str, where: str = "") -> Generator[None]:
        """A problem inside is noted under *key*."""
        try:
            yield
        except BadValueError as error:
            self.note(error, key, where=where)

    def check_keys(self) -> None:
        """Note unknown, misplaced and missing keys. Raises SkipError where most keys are not where they belong."""
        self.checker.unknown(self.own, TASK, ("task", self.index), where=self.where)
        if self.checker.swallowed(self.own, ("task", self.index), where=self.where):
            raise SkipError
        for key in ("name", "command"):
            if key not in self.values:
                self.wrong.add(key)
                self.checker.add(self.line, f"{key} is missing", where=self.where)
