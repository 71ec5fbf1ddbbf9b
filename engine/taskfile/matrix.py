"""`matrix`: from axes to combinations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product

from . import readers
from .layers import filled
from .placeholders import BUILT_IN, Scope, lone
from .problems import BadValueError, did_you_mean
from .values import as_text, identity, is_list, is_table, kind_of, shown

Values = tuple[object, ...]
MAX_TASKS = 1_000_000


class _Missing:
    """Stands where matrix.include gave a key to other combinations only."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


@dataclass(slots=True)
class Grid:
    """The combinations of one entry, in order."""

    keys: tuple[str, ...] = ()
    values: list[Values] = field(default_factory=lambda: [()])
    texts: list[tuple[str, ...]] = field(default_factory=lambda: [()])
    axes: tuple[tuple[str, ...], ...] = ()
    """The keys of each axis with more than one value, first the outermost."""
    samples: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    partial: frozenset[str] = frozenset()
    paired: Mapping[str, str] = field(default_factory=dict[str, str])
    """Axes made of tables, and their keys."""


@dataclass(slots=True)
class _Axis:
    name: str
    keys: tuple[str, ...]
    values: list[Values]
    texts: list[tuple[str, ...]]


def grid(matrix: object, scope: Scope) -> Grid:
    """Every combination, first key outermost; exclude, then include, as GitHub Actions applies them."""
    table = readers.identifiers(matrix)
    axes = [_axis(key, value, scope) for key, value in table.items() if key not in ("include", "exclude")]
    _check_clashes([key for axis in axes for key in axis.keys], scope)
    include, exclude = (_tables(table, key, scope) for key in ("include", "exclude"))
    if not axes and not include:
        raise BadValueError("has no axis: matrix.seed = [1, 2, 3]")
    combinations = 1
    for axis in axes:
        combinations *= len(axis.values)
    if combinations > MAX_TASKS:
        raise BadValueError(f"makes {combinations:,} tasks; more than {MAX_TASKS:,} are refused")
    made = _with_changes(axes, include, exclude, scope) if include or exclude else _plain(axes)
    made.paired = {axis.name: ", ".join(axis.keys) for axis in axes if axis.name not in axis.keys}
    return made


def without_rows(matrix: object, scope: Scope, used: Collection[str]) -> Grid:
    """The keys of a matrix with mistakes, for whatever else can be said of its task. *used*: the placeholders of that:
    where it is not known what the axes are called, any of them may be one."""
    keys = {key: None for key in used if key not in scope.constants and key not in BUILT_IN and "." not in key}
    return Grid(tuple(_keys(matrix, scope, keys) or keys), values=[], texts=[])


def _keys(matrix: object, scope: Scope, used: Collection[str]) -> Collection[str] | None:
    """None: cannot be told."""
    found: dict[str, None] = {}
    for key, raw in matrix.items() if is_table(matrix) else ():
        try:
            value = filled(raw, scope)
        except BadValueError:
            return None
        items = value if is_list(value) else ()
        if not items and key not in used:
            return None
        tables = [item for item in items if is_table(item)]
        found |= {name: None for item in tables for name in item if key != "exclude"}
        if not tables and key not in ("include", "exclude"):
            found[key] = None
    return found


def _plain(axes: Sequence[_Axis]) -> Grid:
    values, texts = [axis.values for axis in axes], [axis.texts for axis in axes]
    flat = all(len(axis.keys) == 1 for axis in axes)
    if flat:
        rows = list(product(*[[item[0] for item in axis] for axis in values]))
        text_rows = list(product(*[[item[0] for item in axis] for axis in texts]))
    else:
        rows = [tuple(chain.from_iterable(row)) for row in product(*values)]
        text_rows = [tuple(chain.from_iterable(row)) for row in product(*texts)]
    keys = tuple(key for axis in axes for key in axis.keys)
    samples = {key: _column(axis.texts, at) for axis in axes for at, key in enumerate(axis.keys)}
    return Grid(keys, rows, text_rows, tuple(axis.keys for axis in axes if len(axis.values) > 1), samples)


def _column(rows: Sequence[tuple[str, ...]], at: int) -> list[str]:
    return list(dict.fromkeys(row[at] for row in rows))


def _axis(key: str, raw: object, scope: Scope) -> _Axis:
    try:
        values = filled(raw, scope)
    except BadValueError as error:
        raise BadValueError(error.words, key) from None
    if not is_list(values):
        raise BadValueError(_no_list(raw, values), key)
    if not values:
        raise BadValueError("is an empty list, so there would be no task", key)
    if not any(map(is_table, values)):
        return _Axis(key, (key,), [(item,) for item in values], [(as_text(item),) for item in values])
    return _paired(key, values)


def _no_list(raw: object, value: object) -> str:
    if isinstance(raw, str) and (name := lone(raw)):
        return f"must be a list, but {{{name}}} is {kind_of(value)}: {shown(value)}"
    return f"must be a list such as [{shown(value)}], got {kind_of(value)}: {shown(value)}"


def _paired(key: str, items: Sequence[object]) -> _Axis:
    first: Mapping[str, object] = items[0] if is_table(items[0]) else {}
    keys = tuple(first)
    if not keys:
        raise BadValueError("must hold either values or tables, not both, and no empty table", key)
    rows: list[Values] = []
    for position, item in enumerate(items, start=1):
        table: Mapping[str, object] = item if is_table(item) else {}
        if set(table) != set(keys):
            raise BadValueError(f"needs the keys {', '.join(keys)} in all its tables: number {position} differs", key)
        rows.append(tuple(table[name] for name in keys))
    try:
        readers.identifiers(first)
    except BadValueError as error:
        raise BadValueError(error.words, key) from None
    return _Axis(key, keys, rows, [tuple(map(as_text, row)) for row in rows])


def _check_clashes(keys: Sequence[str], scope: Scope) -> None:
    for position, key in enumerate(keys):
        if key in BUILT_IN:
            raise BadValueError(f"is taken: {{{key}}} means something already", key)
        if key in scope.constants:
            raise BadValueError("is also in [vars]: give one of them another name", key)
        if key in keys[:position]:
            raise BadValueError("is there twice", key)


def _tables(table: Mapping[str, object], key: str, scope: Scope) -> list[Mapping[str, object]]:
    if key not in table:
        return []
    try:
        found = [readers.identifiers(item) for item in readers.tables(filled(table[key], scope))]
    except BadValueError as error:
        raise BadValueError(error.words, key) from None
    if any(not item for item in found):
        raise BadValueError("has an empty table", key)
    return found


def _with_changes(
    axes: Sequence[_Axis],
    include: Sequence[Mapping[str, object]],
    exclude: Sequence[Mapping[str, object]],
    scope: Scope,
) -> Grid:
    plain = _plain(axes) if axes else Grid(values=[])
    for entry in exclude:
        unknown = next((key for key in entry if key not in plain.keys), None)
        if unknown is not None:
            hint = did_you_mean(unknown, plain.keys) or "it has " + (", ".join(plain.keys) or "none")
            raise BadValueError(f"has {unknown}, which is no axis: {hint}", "exclude")
    rows = [dict(zip(plain.keys, row, strict=True)) for row in plain.values]
    excluded: dict[tuple[str, ...], set[object]] = {}
    for entry in exclude:
        keys = tuple(sorted(entry))
        excluded.setdefault(keys, set()).add(_identity(entry, keys))
    rows = [row for row in rows if not any(_identity(row, keys) in found for keys, found in excluded.items())]
    rows = _included(rows, plain.keys, include)
    if not rows:
        raise BadValueError("is empty: exclude leaves no combination")
    keys = tuple(dict.fromkeys(key for row in [dict.fromkeys(plain.keys), *rows] for key in row))
    _check_clashes(keys, scope)
    return _of_tables(keys, rows)


def _identity(row: Mapping[str, object], keys: tuple[str, ...]) -> object:
    """Equal where the values of *keys* are."""
    return tuple([identity(row[key]) for key in keys])


def _included(
    rows: list[dict[str, object]], axes: Sequence[str], include: Sequence[Mapping[str, object]]
) -> list[dict[str, object]]:
    """An include adds its other keys to every combination that has its axis values; to none: it is one itself."""
    found: dict[tuple[str, ...], dict[object, list[dict[str, object]]]] = {}
    original = tuple(rows)
    for item in include:
        own = tuple(sorted(key for key in item if key in axes))
        extra = {key: value for key, value in item.items() if key not in axes}
        if own not in found:
            found[own] = {}
            for row in original:
                found[own].setdefault(_identity(row, own), []).append(row)
        hits = found[own].get(_identity(item, own), ())
        for row in hits:
            row.update(extra)
        if not hits:
            rows.append(dict(item))
    return rows


def _of_tables(keys: tuple[str, ...], rows: Sequence[Mapping[str, object]]) -> Grid:
    values = [tuple(row.get(key, MISSING) for key in keys) for row in rows]
    texts = [tuple("" if value is MISSING else as_text(value) for value in row) for row in values]
    samples = {key: _column(texts, at) for at, key in enumerate(keys)}
    partial = frozenset(key for at, key in enumerate(keys) if any(row[at] is MISSING for row in values))
    axes = tuple((key,) for key in keys if len(samples[key]) > 1)
    return Grid(keys, values, texts, axes, samples, partial)
