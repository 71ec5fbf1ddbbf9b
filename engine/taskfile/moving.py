"""Values that differ from task to task: compiled once per entry, made once per task."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from . import readers
from .placeholders import Row, Scope, Template, lone, shell_template, template
from .values import as_text, is_list, is_table

Values = tuple[object, ...]
"""The typed values of a task's columns, in step with its Row."""

Make = Callable[[Row, Values], object]

_WHOLE = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Moving:
    """A value that depends on the task."""

    make: Make


def compiled(raw: object, scope: Scope, *, textual: bool) -> object:
    """The value itself where it is the same for every task, else a `Moving`.

    *textual*: placeholders inside stand for text; elsewhere a lone one takes its value's type, and text that is a whole
    number becomes one.
    """
    if isinstance(raw, str):
        return _text(raw, scope, textual=textual)
    if is_list(raw):
        return _list([_item(item, scope, textual=textual) for item in raw])
    if is_table(raw):
        return _table({key: _item(item, scope, textual=textual) for key, item in raw.items()})
    return raw


def _item(raw: object, scope: Scope, *, textual: bool) -> object:
    """Part of a list or table."""
    if textual and isinstance(raw, str):
        return _moving(template(raw, scope))
    return compiled(raw, scope, textual=textual)


def _text(raw: str, scope: Scope, *, textual: bool) -> object:
    name = lone(raw)
    if name is not None and name in scope.columns:
        position = scope.columns[name]
        scope.check_partial(name)
        return Moving(_text_or_list(position) if textual else lambda _, values: values[position])
    if name is not None and (constant := scope.constant(name)) is not None:
        value = constant[0]
        return as_text(value) if textual and not (is_list(value) or is_table(value)) else value
    made = template(raw, scope)
    if textual:
        return _moving(made)
    return _retyped(made) if isinstance(made, str) else Moving(lambda row, _: _retyped(made(row)))


def _text_or_list(position: int) -> Make:
    def make(row: Row, values: Values) -> object:
        value = values[position]
        return value if (is_list(value) or is_table(value)) else row[position]

    return make


def _retyped(text: str) -> object:
    return int(text) if _WHOLE.fullmatch(text) else text


def _moving(made: Template) -> object:
    return made if isinstance(made, str) else Moving(lambda row, _: made(row))


def _list(items: list[object]) -> object:
    if not any(isinstance(item, Moving) for item in items):
        return items
    return Moving(
        lambda row, values: tuple([item.make(row, values) if isinstance(item, Moving) else item for item in items])
    )


def _table(items: dict[str, object]) -> object:
    if not any(isinstance(item, Moving) for item in items.values()):
        return items
    return Moving(
        lambda row, values: {
            key: item.make(row, values) if isinstance(item, Moving) else item for key, item in items.items()
        }
    )


def overlaid(tables: Sequence[object]) -> object:
    """Tables over each other, some of them perhaps `Moving`. Raises BadValueError for what is none."""

    def make(row: Row, values: Values) -> object:
        found = [readers.table(table.make(row, values) if isinstance(table, Moving) else table) for table in tables]
        return {key: value for table in found for key, value in table.items()}

    return Moving(make) if any(isinstance(table, Moving) for table in tables) else make((), ())


def command(raw: str | tuple[str, ...], scope: Scope) -> object:
    """A command: `str`, `tuple[str, ...]` or a `Moving` that makes one. A lone placeholder may be a whole command."""
    if isinstance(raw, str):
        name = lone(raw)
        if name is not None and (name in scope.columns or scope.constant(name) is not None):
            return _text(raw, scope, textual=True)
        return _moving(shell_template(raw, scope))
    parts = [template(word, scope) for word in raw]
    if all(isinstance(part, str) for part in parts):
        return tuple(cast("list[str]", parts))
    return Moving(lambda row, _: tuple([part if isinstance(part, str) else part(row) for part in parts]))
