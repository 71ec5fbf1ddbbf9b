"""Puts [deck], [vars] and [defaults], the chosen profile and the run options on top of each other."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time
from typing import cast

from .check import Checker
from .lines import line_of_number
from .options import RunOptions
from .placeholders import BUILT_IN, Scope, has_slots, lone, names_in, template
from .problems import BadValueError, did_you_mean
from .readers import IDENTIFIER
from .schema import MERGED, PROFILE, TOP
from .source import MAX_DIGITS
from .stem import NAME, NAME_WORDS
from .values import MAX_DEPTH, SourceFloat, as_text, deeper, has_nul, is_list, is_table

Path = tuple[str | int, ...]

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
    origins: dict[tuple[str, str], Path] = field(default_factory=dict[tuple[str, str], Path])

    def path(self, table: str, key: str) -> Path:
        """The path in the file of a key of "deck", "vars" or "defaults"; empty where --set gave it."""
        return self.origins.get((table, key), (table, key))


def layered(checker: Checker, options: RunOptions) -> Layers:
    """Merge what a file says at its top level; everything wrong with that is among the problems. [vars] are as written:
    see `fill_vars`."""
    data = checker.source.data
    checker.unknown(data, TOP, (), where="")
    layers = Layers()
    for name in ("deck", "vars", "defaults", "slurm", "distributed", "notify"):
        _overlay(layers, name, checker.table(data.get(name, {}), (name,), where=f"[{name}]"), (name,))
    _profile(layers, checker, options.profile)
    _set(layers, checker, options)
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
    profiles = checker.table(checker.source.data.get("profile", {}), ("profile",), where="[profile]")
    for profile, value in profiles.items():
        path: Path = ("profile", profile)
        if not NAME.fullmatch(profile):
            checker.problems.add(checker.source.lines.of(*path), NAME_WORDS, where=table_of(path))
        table = checker.table(value, path, where=table_of(path))
        checker.unknown(table, PROFILE, path, where=table_of(path))
        for key in PROFILE:
            values = checker.table(table.get(key, {}), (*path, key), where=table_of(path))
            if key == "defaults":
                checker.swallowed(values, (*path, key), where=table_of(path))
            if profile == name:
                _overlay(layers, key, values, (*path, key))
            else:
                _check_unused(checker, key, values, (*path, key))
    if name is not None and name not in profiles:
        hint = did_you_mean(name, list(profiles)) or "the file has " + (", ".join(profiles) or "none")
        checker.problems.add(0, f"--profile {name}: there is no [profile.{name}]: {hint}")


def _check_unused(checker: Checker, key: str, values: Mapping[str, object], path: Path) -> None:
    """A table of a profile that is not chosen: what is wrong with it whatever placeholders stand for."""
    known = PROFILE[key].tables
    if known is not None:
        plain = {name: value for name, value in values.items() if key == "deck" or not has_slots(value)}
        checker.read(plain, known, path, where=table_of(path))
        return
    for name in values:
        try:
            _check_var(name)
        except BadValueError as error:
            checker.note(error, (*path, name), key=name, where=table_of(path))


def table_of(path: Path) -> str:
    """How messages name the table that a path begins with: "[deck]", "[profile.smoke]"."""
    return f"[profile.{path[1]}]" if path[:1] == ("profile",) and len(path) > 1 else f"[{path[0]}]" if path else ""


def _set(layers: Layers, checker: Checker, options: RunOptions) -> None:
    for key, text in options.set.items():
        if key not in layers.vars and (line := _matrix_line(checker, key)):
            words = f"{key} is a key of matrix (line {line}), not of [vars]: choose with --only {key}=VALUE"
            checker.problems.add(0, f"--set {key}={text}: {words}")
        elif not IDENTIFIER.fullmatch(key):
            checker.problems.add(0, f"--set {key}={text}: {key!r} cannot be the name of a placeholder")
        elif key not in layers.vars and f"{{{key}}}" not in checker.source.text:
            hint = did_you_mean(key, list(layers.vars)) or "it is not in [vars], and nothing uses it"
            checker.problems.add(0, f"--set {key}={text}: the file has no {{{key}}}: {hint}")
        elif has_nul(set_value(text)):
            checker.problems.add(0, f"--set {key}: no text may hold a NUL character")
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
            checker.problems.add(
                checker.source.lines.of(*path), f"{key} {error.words}", where=table_of(path) or "--set"
            )
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
        try:
            filling.resolve(key)
        except BadValueError as error:
            raise BadValueError(error.words, key, *error.inside) from None
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
        made = filled(value, Scope({**self.done, **known}, self.environ), home=True)
        if deeper(made, MAX_DEPTH):
            raise BadValueError(f"is nested more than {MAX_DEPTH} deep")
        self.done[key] = made
        return made


def filled(value: object, scope: Scope, *, home: bool = False) -> object:
    """A value with constants put in; a lone placeholder takes its type. *home*: expand a leading `~`."""
    if isinstance(value, str):
        name = lone(value)
        constant = scope.constant(name) if name else None
        if constant is not None:
            return constant[0]
        text = template(value, scope)
        return os.path.expanduser(text) if home and isinstance(text, str) and text.startswith("~") else text
    if is_list(value):
        return [filled(item, scope, home=home) for item in value]
    if is_table(value):
        return {key: filled(item, scope, home=home) for key, item in value.items()}
    return value
