"""`matrix`: from axes to combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from . import kinds
from .placeholders import BUILT_IN, Scope, fill, lone
from .problems import BadValueError, did_you_mean, inside
from .values import as_text, identity, is_list, is_table, kind_of, shown

MAX_TASKS = 1_000_000

Combination = dict[str, object]
"""Values by the names of their placeholders."""


@dataclass(slots=True)
class Grid:
    """The combinations of one entry, in order."""

    rows: list[Combination] = field(default_factory=lambda: [{}])
    keys: tuple[str, ...] = ()
    axes: tuple[tuple[str, ...], ...] = ()
    """The keys of each axis with more than one value, first the outermost."""
    partial: frozenset[str] = frozenset()
    """Keys that matrix.include gave to some combinations only."""
    paired: Mapping[str, str] = field(default_factory=dict[str, str])
    """Axes made of tables, and their keys."""


def grid(matrix: object, scope: Scope) -> Grid:
    """Every combination, first key outermost; exclude, then include, as GitHub Actions applies them. Raises
    BadValueError."""
    table = kinds.identifiers(matrix)
    filled = kinds.table(fill(scope.checked(table), scope.known))
    axes = {key: _axis(key, table[key], filled[key]) for key in table if key not in ("include", "exclude")}
    keys = [key for axis in axes.values() for key in axis[0]]
    _check_clashes(keys, scope)
    include, exclude = (_tables(filled, key) for key in ("include", "exclude"))
    if not axes and not include:
        raise BadValueError("has no axis: matrix.seed = [1, 2, 3]")
    count = 1
    for axis in axes.values():
        count *= len(axis)
    if count > MAX_TASKS:
        raise BadValueError(f"makes {count:,} tasks; more than {MAX_TASKS:,} are refused")
    rows = [{key: item for part in parts for key, item in part.items()} for parts in product(*axes.values())]
    made = Grid(rows, tuple(keys), tuple(tuple(axis[0]) for axis in axes.values() if len(axis) > 1))
    made.paired = {name: ", ".join(axis[0]) for name, axis in axes.items() if name not in axis[0]}
    if include or exclude:
        _change(made, include, exclude, scope)
    return made


def _axis(name: str, raw: object, values: object) -> list[Combination]:
    """What each value of an axis puts into a combination."""
    if not is_list(values):
        place = lone(raw) if isinstance(raw, str) else None
        if place:
            raise BadValueError(f"must be a list, but {{{place}}} is {kind_of(values)}: {shown(values)}", name)
        raise BadValueError(f"must be a list such as [{shown(values)}], got {kind_of(values)}: {shown(values)}", name)
    if not values:
        raise BadValueError("is an empty list, so there would be no task", name)
    return _paired(name, values) if any(map(is_table, values)) else [{name: value} for value in values]


def _paired(name: str, items: Sequence[object]) -> list[Combination]:
    first: Mapping[str, object] = items[0] if is_table(items[0]) else {}
    if not first:
        raise BadValueError("must hold either values or tables, not both, and no empty table", name)
    rows: list[Combination] = []
    for position, item in enumerate(items, start=1):
        if not is_table(item) or set(item) != set(first):
            words = f"needs the keys {', '.join(first)} in all its tables: number {position} differs"
            raise BadValueError(words, name)
        rows.append({key: item[key] for key in first})
    with inside(name):
        kinds.identifiers(first)
    return rows


def _check_clashes(keys: Sequence[str], scope: Scope) -> None:
    for position, key in enumerate(keys):
        if key in BUILT_IN:
            raise BadValueError(f"is taken: {{{key}}} means something already", key)
        if key in scope.known:
            raise BadValueError("is also in [vars]: give one of them another name", key)
        if key in keys[:position]:
            raise BadValueError("is there twice", key)


def _tables(filled: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    if key not in filled:
        return []
    with inside(key):
        found = [kinds.identifiers(item) for item in kinds.tables(filled[key])]
        if not all(found):
            raise BadValueError("has an empty table")
        return found


def _change(
    grid: Grid, include: Sequence[Mapping[str, object]], exclude: Sequence[Mapping[str, object]], scope: Scope
) -> None:
    axes = grid.keys
    for entry in exclude:
        unknown = next((key for key in entry if key not in axes), None)
        if unknown is not None:
            hint = did_you_mean(unknown, axes) or "it has " + (", ".join(axes) or "none")
            raise BadValueError(f"has {unknown}, which is no axis: {hint}", "exclude")
    excluded: dict[tuple[str, ...], set[object]] = {}
    for entry in exclude:
        keys = tuple(sorted(entry))
        excluded.setdefault(keys, set()).add(_identity(entry, keys))
    rows = [row for row in grid.rows if not any(_identity(row, keys) in found for keys, found in excluded.items())]
    grid.rows = _included(rows if axes else [], axes, include)
    if not grid.rows:
        raise BadValueError("is empty: exclude leaves no combination")
    grid.keys = tuple(dict.fromkeys([*axes, *(key for row in grid.rows for key in row)]))
    _check_clashes(grid.keys, scope)
    grid.partial = frozenset(key for key in grid.keys if any(key not in row for row in grid.rows))
    grid.axes = tuple((key,) for key in grid.keys if len({as_text(row.get(key, "")) for row in grid.rows}) > 1)


def _identity(row: Mapping[str, object], keys: tuple[str, ...]) -> object:
    """Equal where the values of *keys* are."""
    return tuple([identity(row[key]) for key in keys])


def _included(
    rows: list[Combination], axes: Sequence[str], include: Sequence[Mapping[str, object]]
) -> list[Combination]:
    """An include adds its other keys to every combination that has its axis values; to none: it is one itself."""
    found: dict[tuple[str, ...], dict[object, list[Combination]]] = {}
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
