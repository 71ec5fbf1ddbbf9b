"""From one [[task]] table to a plan for its tasks: what is the same for all of them, and what makes the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from ..core.spec import Watch
from . import readers, tables
from .envfile import read_env_file
from .fields import Fields, later, policy, resources
from .layers import filled
from .moving import Moving, command, compiled
from .names import check_name
from .placeholders import Scope, Template, has_slots, template
from .problems import BadValueError, SkipError
from .said import Said
from .schema import TASK
from .scopes import Scopes, scopes_of
from .works import EnvPlan, WorkPlan, env_plan, overridden, work_plan

_APART = frozenset({
    "name", "command", "env", "env_file", "matrix", "shards", "nodes", "on_oom", "resume_command", "metrics", "watch",
    "slurm", "fingerprint_ignore",
})  # fmt: skip
"""Keys that are read one by one; all others are read alike."""

_PARTS = (str, list, dict)
_LATER = frozenset(key for key, known in TASK.items() if known.later) | {"launch", "nodes"}

RawCommand = str | tuple[str, ...]


@dataclass(slots=True)
class Plan:
    """How to make an entry's tasks."""

    said: Said
    entry: str
    """The name as written."""
    scopes: Scopes
    name: Template
    work: WorkPlan
    rungs: tuple[WorkPlan, ...]
    resume: object
    """Command, Moving or None."""
    rung_resumes: tuple[object, ...]
    """The same on each rung of on_oom: Command or Moving."""
    fixed: dict[str, object]
    """Keys whose values all tasks share, read."""
    moving: list[tuple[str, Moving]]
    """Keys whose values differ."""
    metrics: object
    """A table of metrics as written, or Moving."""
    watch: Watch | Moving | None
    slurm: tuple[tuple[str, object], ...]


def plan_entry(said: Said) -> Plan:
    """Read an entry. Raises SkipError when something is wrong with it; what, is among the problems then."""
    said.check_keys()
    scopes = scopes_of(said)
    name = _name(said, scopes.name)
    variables = _Variables(said, scopes)
    work = _work(said, scopes.work, variables)
    rungs = _rungs(said, scopes.work, variables) if "on_oom" in said.all else ()
    resume = _resume(said, scopes.work)
    rung_resumes = _rung_resumes(said, scopes.work) if rungs and resume is not None else ()
    fixed, moving = _fields(said, scopes)
    metrics, watch, slurm = _metrics(said, scopes.other), _watch(said, scopes.other), _slurm(said)
    if said.failed or work is None or name is None:
        _check_further(said, scopes, name, fixed)
        raise SkipError
    if not _LATER.isdisjoint(said.all):
        _note_later(said, fixed)
    entry = str(said.all["name"])
    return Plan(said, entry, scopes, name, work, rungs, resume, rung_resumes, fixed, moving, metrics, watch, slurm)


def _name(said: Said, scope: Scope) -> Template | None:
    try:
        return template(cast("str", TASK["name"].kind.read(said.all["name"])), scope)
    except BadValueError as error:
        said.note(error, "name")
        return None


def _check_further(said: Said, scopes: Scopes, name: Template | None, fixed: Fields) -> None:
    """Of an entry that cannot be made, note what else is wrong with it."""
    for row in () if name is None else scopes.table.texts:
        with said.reading("name"):
            check_name(name if isinstance(name, str) else name(row))  # pyright: ignore[reportOptionalCall]
    for check in (resources, policy):
        with said.reading(""):
            check(fixed)


class _Variables:
    """The environment of an entry, before placeholders are filled."""

    def __init__(self, said: Said, scopes: Scopes) -> None:
        self.table: Mapping[str, str | None] = {}
        self.plain: Mapping[str, str] = {}
        self.plan = EnvPlan((), (), ())
        if "env_file" in said.all:
            self._read_file(said, scopes.other)
        if "env" in said.all or self.plain:
            try:
                self.table = readers.env(said.all.get("env", {}))
                self.plan = env_plan(self.table, self.plain, scopes.work)
            except BadValueError as error:
                said.note(error, "env")

    def _read_file(self, said: Said, scope: Scope) -> None:
        path = said.alone("env_file", scope, None)
        with said.reading("env_file"):
            if isinstance(path, str):
                folder = said.context.checker.source.folder
                self.plain = read_env_file(os.path.join(folder, os.path.expanduser(path)))


def _work(said: Said, scope: Scope, variables: _Variables) -> WorkPlan | None:
    try:
        raw = cast("RawCommand", TASK["command"].kind.read(said.all["command"]))
        return work_plan(raw, variables.plan, scope)
    except BadValueError as error:
        said.note(error, "command")
        return None


def _rungs(said: Said, scope: Scope, variables: _Variables) -> tuple[WorkPlan, ...]:
    """The on_oom ladder; each rung changes the task as written, not the rung before."""
    rungs: list[WorkPlan] = []
    with said.reading("on_oom"):
        raw = cast("RawCommand", TASK["command"].kind.read(said.all["command"]))
        for number, rung in enumerate(readers.tables(said.all["on_oom"]), start=1):
            try:
                changes, inner = _changed_by(rung, scope)
                env = {**variables.table, **cast("dict[str, str | None]", changes.get("env", {}))}
                rungs.append(work_plan(raw, env_plan(env, variables.plain, inner), inner))
            except BadValueError as error:
                words = f"{'.'.join(error.inside)} {error.words}".strip()
                raise BadValueError(f"rung {number}: {words}") from None
    return tuple(rungs)


def _changed_by(rung: object, scope: Scope) -> tuple[Mapping[str, object], Scope]:
    """What a rung says, and the scope with its variables."""
    changes = tables.read_table(rung, TASK["on_oom"].tables or {})
    values = readers.table(filled(changes.get("vars", {}), Scope(scope.constants, scope.environ), home=True))
    return changes, overridden(scope, values)


def _rung_resumes(said: Said, scope: Scope) -> tuple[object, ...]:
    """The resume command on each rung: what it resumes was started with other variables than those as written."""
    return tuple(_resume(said, _changed_by(rung, scope)[1]) for rung in readers.tables(said.all["on_oom"]))


def _resume(said: Said, scope: Scope) -> object:
    if "resume_command" in said.all:
        with said.reading("resume_command"):
            return command(cast("RawCommand", said.context.read("resume_command", said.all["resume_command"])), scope)
    elif "resume_when" in said.own:
        said.note(BadValueError("says nothing without resume_command"), "resume_when")
    return None


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
            made = compiled(said.all["metrics"], scope, textual=True)
            tables.metrics({} if isinstance(made, Moving) else made, "")
            return made
    return None


def _watch(said: Said, scope: Scope) -> Watch | Moving | None:
    if "watch" in said.all:
        with said.reading("watch"):
            made = compiled(said.all["watch"], scope, textual=True)
            return made if isinstance(made, Moving) else _read_watch(said, made)
    return None


def _read_watch(said: Said, value: object) -> Watch | None:
    read = tables.watch(value)
    if read is not None and "watch" in said.own and not tables.sees(read):
        raise BadValueError("looks for nothing: say silent, idle_gpu or pattern")
    return read


def _slurm(said: Said) -> tuple[tuple[str, object], ...]:
    if "slurm" in said.all:
        with said.reading("slurm"):
            return tables.slurm(said.all["slurm"])
    return ()


def _note_later(said: Said, fixed: Mapping[str, object]) -> None:
    for key in said.all:
        if TASK[key].later:
            said.later(key, key)
    for key, words in later(fixed):
        said.later(key, words)
