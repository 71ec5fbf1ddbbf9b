"""From one [[task]] table to a plan for its tasks: what is the same for all of them, and what makes the rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

from ..core.spec import Watch
from . import cluster, tables
from .executes import Executes, executes_of
from .fields import Fields, policy, resources
from .moving import Moving, compiled
from .names import check_name
from .placeholders import Scope, Template, has_slots, template
from .problems import BadValueError, SkipError
from .said import Said
from .schema import TASK
from .scopes import Scopes, scopes_of

_APART = frozenset({
    "name", "command", "env", "env_file", "matrix", "shards", "nodes", "on_oom", "resume_command", "metrics", "watch",
    "slurm", "fingerprint_ignore", "distributed",
})  # fmt: skip
"""Keys that are read one by one; all others are read alike."""

_PARTS = (str, list, dict)
_LATER = frozenset(key for key, known in TASK.items() if known.later)


@dataclass(slots=True)
class Plan:
    """How to make an entry's tasks."""

    said: Said
    entry: str
    """The name as written."""
    scopes: Scopes
    name: Template
    executes: Executes
    fixed: dict[str, object]
    """Keys whose values all tasks share, read."""
    moving: list[tuple[str, Moving]]
    """Keys whose values differ."""
    metrics: object
    """A table of metrics as written, or Moving."""
    watch: Watch | Moving | None
    slurm: cluster.Options | Moving


def plan_entry(said: Said) -> Plan:
    """Read an entry. Raises SkipError when something is wrong with it; what, is among the problems then."""
    said.check_keys()
    scopes = scopes_of(said)
    name = _name(said, scopes.name)
    executes = executes_of(said, scopes)
    fixed, moving = _fields(said, scopes)
    metrics, watch, slurm = _metrics(said, scopes.other), _watch(said, scopes.other), cluster.options_of(said, scopes)
    if said.failed or name is None:
        _check_further(said, scopes, name, fixed)
        raise SkipError
    for key in _LATER.intersection(said.all):
        said.later(key, key)
    entry = str(said.all["name"])
    return Plan(said, entry, scopes, name, executes, fixed, moving, metrics, watch, slurm)


def _name(said: Said, scope: Scope) -> Template | None:
    if "name" not in said.all:
        return None
    try:
        return template(cast("str", TASK["name"].kind.read(said.all["name"])), scope)
    except BadValueError as error:
        said.note(error, "name")
        return None


def _check_further(said: Said, scopes: Scopes, name: Template | None, fixed: Fields) -> None:
    """Of an entry that cannot be made, note what else is wrong with it."""
    rows = scopes.table.texts or ([()] if isinstance(name, str) else [])
    for row in () if name is None else rows:
        with said.reading("name"):
            check_name(name if isinstance(name, str) else name(row))  # pyright: ignore[reportOptionalCall]
    for check in (resources, partial(policy, on_slurm=said.context.on_slurm)):
        with said.reading(""):
            check(fixed)


def _fields(said: Said, scopes: Scopes) -> tuple[dict[str, object], list[tuple[str, Moving]]]:
    fixed: dict[str, object] = {"nodes": scopes.work.constants["nodes"]}
    moving: list[tuple[str, Moving]] = []
    for key, value in said.all.items():
        if key in _APART or key not in TASK:
            continue
        try:
            if value.__class__ in _PARTS and has_slots(value):
                scope = scopes.needs if key in ("needs", "after") else scopes.other
                value = compiled(value, scope, textual=TASK[key].kind.textual)
                if isinstance(value, Moving):
                    moving.append((key, value))
                    continue
            fixed[key] = said.context.read(key, value)
        except BadValueError as error:
            said.note(error, key)
    return fixed, moving


def _metrics(said: Said, scope: Scope) -> object:
    if "metrics" in said.all:
        with said.reading("metrics"):
            made = said.compiled_table("metrics", scope)
            tables.metrics({} if isinstance(made, Moving) else made, "")
            return made
    return None


def _watch(said: Said, scope: Scope) -> Watch | Moving | None:
    if "watch" in said.all:
        with said.reading("watch"):
            made = said.compiled_table("watch", scope)
            return made if isinstance(made, Moving) else _read_watch(said, made)
    return None


def _read_watch(said: Said, value: object) -> Watch | None:
    read = tables.watch(value)
    if read is not None and "watch" in said.own and not tables.sees(read):
        raise BadValueError("looks for nothing: say silent, idle_gpu, log_size or pattern")
    return read
