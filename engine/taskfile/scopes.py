"""What placeholders can stand for in the different keys of an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from .fingerprint import IGNORED_VARIABLES
from .matrix import Grid, grid, without_rows
from .placeholders import RUNTIME, Scope, ignoring, names_in
from .problems import BadValueError
from .said import Said

_NOT_IN_NAME: dict[str, str] = dict.fromkeys(("task", "shard", "shards", *RUNTIME), "may not stand in name")
_NOT_IN_NEEDS: dict[str, str] = dict.fromkeys(("attempt", "gpu_ids", "shard"), "may not stand in needs and after")
_NO_SHARDS: dict[str, str] = dict.fromkeys(("shard", "shards"), "means something only in a task with shards")
_RUNTIME = frozenset(RUNTIME)
_CHANGING = frozenset(("matrix", "shards", "nodes", "fingerprint_ignore"))


@dataclass(frozen=True, slots=True)
class Scopes:
    """The combinations of an entry, and a scope for each group of keys."""

    table: Grid
    shards: int | None
    name: Scope
    needs: Scope
    work: Scope
    """Commands and environment: what is known only at the start stays in them."""
    other: Scope


def scopes_of(said: Said) -> Scopes:
    """The scopes of an entry; those of entries without a matrix are all the same. A matrix with mistakes
    has keys and no combinations."""
    if not _CHANGING.isdisjoint(said.all):
        return _made(said)
    plain = said.context.plain
    if plain is None:
        plain = said.context.plain = _made(said)
    return cast("Scopes", plain)


def _made(said: Said) -> Scopes:
    constants, environ = {**said.context.constants, "nodes": 1}, said.context.environ
    first = Scope(constants, environ)
    constants["nodes"] = said.alone("nodes", first, 1)
    table = _grid(said, first)
    first.refused = dict.fromkeys(table.keys, "differs between the tasks of the entry, so it may not stand here")
    shards = _shards(said, first)
    names = (*table.keys, "task", "shard", "shards") if shards else (*table.keys, "task")
    columns = {key: at for at, key in enumerate(names)}
    paired = {axis: f"is an axis of tables: use their keys ({keys})" for axis, keys in table.paired.items()}
    refused = paired if shards else {**_NO_SHARDS, **paired}
    ignored = ignoring(cast("tuple[str, ...]", said.alone("fingerprint_ignore", first, IGNORED_VARIABLES)))
    known = {**constants, "log_dir": said.context.log_dir}

    def scope(refused: dict[str, str], columns: dict[str, int]) -> Scope:
        return Scope(known, environ, columns, table.samples, refused=refused, partial=table.partial)

    in_name = scope({**paired, **_NOT_IN_NAME}, {key: columns[key] for key in table.keys})
    in_name.constants = constants
    in_needs = scope({**refused, **_NOT_IN_NEEDS}, {key: at for key, at in columns.items() if key != "shard"})
    samples = {**table.samples, **_likely(said)}
    in_work = Scope(constants, environ, columns, samples, _RUNTIME, ignored, refused, table.partial)
    return Scopes(table, shards, in_name, in_needs, in_work, scope(refused, columns))


def _likely(said: Said) -> dict[str, tuple[str, ...]]:
    """What will be filled in at the start, as far as it is known: to tell whether it may stand inside quotes."""
    context = said.context
    return {"python": (context.python.path,), "log_dir": (context.log_dir,), "run_dir": (context.log_dir,)}


def _grid(said: Said, scope: Scope) -> Grid:
    if "matrix" not in said.all:
        return Grid()
    try:
        return grid(said.all["matrix"], scope)
    except BadValueError as error:
        said.note(error, "matrix")
        others = [value for key, value in said.all.items() if key != "matrix"]
        return without_rows(said.all["matrix"], scope, names_in(others))


def _shards(said: Said, scope: Scope) -> int | None:
    number = said.alone("shards", scope, None)
    if number != "gpus":
        return cast("int | None", number)
    entry, context = str(said.all.get("name", "")), said.context
    if entry not in context.fixed_shards and context.gpu_count is None:
        return 1
    count = context.fixed_shards.get(entry) or max(1, context.gpu_count or 1)
    context.resolved_shards[entry] = count
    return count
