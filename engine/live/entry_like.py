"""A [[task]] table like that of a task which exists, with some values in the place of others; or one for a command."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from typing import cast

import tomli_w

from ..core.spec import DeckFile, TaskSpec
from ..errors import UsageError
from ..taskfile.layers import set_value
from ..taskfile.problems import did_you_mean
from ..taskfile.schema import TASK
from ..taskfile.select import task_named
from ..taskfile.source import Source
from ..taskfile.values import as_text, is_list, is_table

Table = dict[str, object]
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._=,+@/-]+")
_LONGEST = 100
"""Bytes of a name that is made up; there is room for a number behind it."""


def entry_like(source: Source, file: DeckFile, like: str, values: Mapping[str, str]) -> Table:
    """A table for one task that is as *like* is, but for *values*: of its matrix, of [vars], or keys of a task.

    Raises UsageError: no such task, no such key.
    """
    spec = task_named(file, like, "--like ")
    entry = _entry_of(source, spec)
    axes = {key: [_typed(text)] for key, text in spec.params.items() if key != "shard"}
    entry.pop("matrix", None)
    for key, text in values.items():
        if key in axes:
            axes[key] = [set_value(text)]
        elif key in file.vars:
            entry = _with_var(entry, key, text)
        else:
            _set_key(entry, key, text, (*axes, *file.vars))
    made: Table = {"name": entry.pop("name"), "command": entry.pop("command", "")}
    if axes:
        made["matrix"] = axes
    return {key: value for key, value in {**made, **entry}.items() if value != ""}


def entry_for(command: str | Sequence[str], values: Mapping[str, str], name: str) -> Table:
    """A table for a command. Raises UsageError for a key that tasks do not have."""
    line = command if isinstance(command, str) else list(command)
    entry: Table = {"name": name or name_for(command), "command": line}
    for key, text in values.items():
        _set_key(entry, key, text)
    return entry


def unique(entry: Table, spec: TaskSpec | None, values: Mapping[str, str], taken: Collection[str]) -> Table:
    """The same table under a name that no task has. *spec*: the task that it is made like."""
    if spec is None:
        return {**entry, "name": _numbered(cast("str", entry["name"]), taken)}
    said = ",".join(f"{key}={text}" for key, text in values.items())
    name = f"{spec.name}-{_NOT_IN_NAMES.sub('_', said)}" if said else spec.name
    return {**entry, "name": _numbered(name.encode()[:_LONGEST].decode("utf-8", "ignore"), taken)}


def _numbered(name: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"


def _entry_of(source: Source, spec: TaskSpec) -> Table:
    entries = cast("list[Table]", source.data["task"])
    return dict(next(entry for at, entry in enumerate(entries) if source.lines.of("task", at) == spec.line))


def _typed(text: str) -> object:
    """A matrix value from its text: what a number looks like is one, everything else is text."""
    value = set_value(text)
    return value if isinstance(value, (bool, int, float)) and as_text(value) == text else text


def _set_key(entry: Table, key: str, text: str, variables: Iterable[str] = ()) -> None:
    """*variables*: what it may have been meant to be, too."""
    table, _, inner = key.partition(".")
    if table not in TASK:
        hint = did_you_mean(table, [*variables, *TASK])
        raise UsageError(
            f"--set {key}: neither the matrix of the task, nor [vars], nor the keys of a task have it"
            + (f": {hint}" if hint else "")
        )
    if inner:
        below = entry.get(table)
        entry[table] = {**(below if is_table(below) else {}), inner: text if table == "env" else set_value(text)}
    else:
        entry[table] = set_value(text)


def _with_var(entry: Table, key: str, text: str) -> Table:
    """Every {key} becomes the value. Raises UsageError where there is none: nothing would be other than before."""
    slot = re.compile(rf"(?<![{{$])\{{{re.escape(key)}\}}(?!\}})")
    found = False

    def put(value: object, said: str, *, alone: bool = False) -> object:
        """*said*: the text in the value's place. *alone*: it may be all of a key's value, and so be no text."""
        nonlocal found
        if isinstance(value, str):
            if alone and slot.fullmatch(value):
                found = True
                return set_value(text)
            made, count = slot.subn(lambda _: said, value)
            found = found or bool(count)
            return made
        if is_list(value):
            return [put(item, text) for item in value]
        return {name: put(item, text) for name, item in value.items()} if is_table(value) else value

    made: Table = {}
    for name, value in entry.items():
        shell = name in ("command", "resume_command") and isinstance(value, str)
        made[name] = put(value, shlex.quote(text) if shell else text, alone=not shell)
    if not found:
        raise UsageError(f"--set {key}: the entry does not use {{{key}}}")
    return made


def name_for(command: str | Sequence[str]) -> str:
    """The script's name, else the program's."""
    words = command.split() if isinstance(command, str) else list(command)
    scripts = [word for word in words if word.endswith((".py", ".sh")) and not word.startswith("-")]
    word = os.path.basename((scripts or words)[0])
    name = _NOT_IN_NAMES.sub("_", os.path.splitext(word)[0]).strip("-/")
    return name[:_LONGEST] or "task"


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def inline(value: object) -> str:
    """A value as TOML: lists and tables stay on their line, floats as they were written."""
    if is_table(value):
        return "{ " + ", ".join(f"{key_text(key)} = {inline(item)}" for key, item in value.items()) + " }"
    if is_list(value):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, (bool, int, float, datetime, date, time)):
        return as_text(value)
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def key_text(key: str) -> str:
    """A key, quoted where it must be."""
    return key if _BARE.fullmatch(key) else inline(key)


def table_lines(header: str, values: Mapping[str, object]) -> str:
    """A table with a line for each key."""
    return "\n".join([header, *(f"{key_text(key)} = {inline(value)}" for key, value in values.items())]) + "\n"
