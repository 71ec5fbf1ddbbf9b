"""From one [[task]] table to a plan for its tasks: what is the same for all of them, and what makes the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from ..core.spec import Metric, Watch
from . import readers, tables
from .envfile import read_env_file
from .fields import later
from .fingerprint import IGNORED_VARIABLES
from .layers import filled
from .matrix import Grid, grid
from .moving import Moving, command, compiled
from .placeholders import RUNTIME, Scope, Template, has_slots, ignoring, template
from .problems import BadValueError, SkipError
from .said import Said
from .schema import TASK
from .works import EnvPlan, WorkPlan, env_plan, overridden, work_plan

_APART = frozenset({
    "name", "command", "env", "env_file", "matrix", "shards", "nodes", "on_oom", "resume_command", "metrics", "watch",
    "slurm", "fingerprint_ignore",
})  # fmt: skip
"""Keys that are read one by one; all others are read alike."""

_NOT_IN_NAME = dict.fromkeys(("task", "shard", "shards", *RUNTIME), "may not stand in name")
_NOT_IN_NEEDS = dict.fromkeys(("attempt", "gpu_ids", "shard"), "may not stand in needs and after")
_NO_SHARDS = dict.fromkeys(("shard", "shards"), "means something only in a task with shards")
_RUNTIME = frozenset(RUNTIME)
_PARTS = (str, list, dict)


@dataclass(slots=True)
class Plan:
    """How to make an entry's tasks."""

    said: Said
    entry: str
    """The name as written."""
    name: Template
    grid: Grid
    shards: int | None
    work: WorkPlan
    rungs: tuple[WorkPlan, ...]
    resume: object
    """Command, Moving or None."""
    fixed: dict[str, object]
    """Keys whose values all tasks share, read."""
    moving: list[tuple[str, Moving]]
    """Keys whose values differ."""
    metrics: object
    """tuple[Metric, ...] or Moving."""
    watch: Watch | None
    slurm: tuple[tuple[str, object], ...]


def plan_entry(said: Said) -> Plan:
    """Read an entry. Raises SkipError when something is wrong with it; what, is among the problems then."""
    said.check_keys()
    scope, table = _scope(said)
    shards = _shards(said, scope)
    columns = {key: at for at, key in enumerate((*table.keys, "task", *(("shard", "shards") if shards else ())))}
    scope = replace(
        scope, columns=columns, samples=table.samples, partial=table.partial, refused={} if shards else _NO_SHARDS
    )
    name = _name(said, replace(scope, columns={key: at for key, at in columns.items() if key in table.keys}))
    work, rungs, resume = _works(said, scope)
    fixed, moving = _fields(said, scope)
    fixed["nodes"] = scope.constants["nodes"]
    plan = Plan(said, str(said.all["name"]), name, table, shards, work, rungs, resume, fixed, moving, (), None, ())
    _tables(plan, scope)
    if said.failed:
        raise SkipError
    _note_later(plan)
    return plan


def _scope(said: Said) -> tuple[Scope, Grid]:
    """What placeholders stand for, without the columns, and the combinations that make these."""
    constants = {**said.context.constants, "nodes": 1}
    scope = Scope(constants, said.context.environ)
    constants["nodes"] = said.alone("nodes", scope, 1)
    table = Grid()
    if "matrix" in said.all:
        try:
            table = grid(said.all["matrix"], scope)
        except BadValueError as error:
            said.note(error, "matrix")
            raise SkipError from None
    return Scope({**constants, "log_dir": said.context.log_dir}, said.context.environ), table


def _shards(said: Said, scope: Scope) -> int | None:
    number = said.alone("shards", scope, None)
    if number != "gpus":
        return cast(int | None, number)
    entry, context = str(said.all["name"]), said.context
    if entry not in context.fixed_shards and context.gpu_count is None:
        return 1
    count = context.fixed_shards.get(entry) or max(1, context.gpu_count or 1)
    context.resolved_shards[entry] = count
    return count


def _name(said: Said, scope: Scope) -> Template:
    with said.reading("name"):
        name = cast(str, said.context.read("name", said.all["name"]))
        constants = {key: value for key, value in scope.constants.items() if key != "log_dir"}
        return template(name, replace(scope, constants=constants, refused=_NOT_IN_NAME))
    raise SkipError


def _works(said: Said, scope: Scope) -> tuple[WorkPlan, tuple[WorkPlan, ...], object]:
    ignored = ignoring(cast(tuple[str, ...], said.alone("fingerprint_ignore", scope, IGNORED_VARIABLES)))
    constants = {key: value for key, value in scope.constants.items() if key != "log_dir"}
    scope = replace(scope, constants=constants, runtime=_RUNTIME, secret=ignored)
    variables, plain = _variables(said, scope)
    env = EnvPlan((), (), ())
    with said.reading("env"):
        env = env_plan(variables, plain, scope)
    resume = _resume(said, scope)
    with said.reading("command"):
        raw = cast(str, said.context.read("command", said.all["command"]))
        work = work_plan(raw, env, scope, ignored)
        return work, _rungs(said, scope, raw, variables, plain, ignored), resume
    raise SkipError


def _variables(said: Said, scope: Scope) -> tuple[Mapping[str, str | None], Mapping[str, str]]:
    variables: Mapping[str, str | None] = {}
    plain: Mapping[str, str] = {}
    if "env" in said.all:
        with said.reading("env"):
            variables = readers.env(said.all["env"])
    if "env_file" in said.all:
        path = said.alone("env_file", scope, None)
        with said.reading("env_file"):
            if isinstance(path, str):
                folder = said.context.checker.source.folder
                plain = read_env_file(os.path.join(folder, os.path.expanduser(path)))
    return variables, plain


def _resume(said: Said, scope: Scope) -> object:
    if "resume_command" in said.all:
        with said.reading("resume_command"):
            return command(cast(str, said.context.read("resume_command", said.all["resume_command"])), scope)
    elif "resume_when" in said.own:
        said.note(BadValueError("says nothing without resume_command"), "resume_when")
    return None


def _rungs(
    said: Said,
    scope: Scope,
    raw: str | tuple[str, ...],
    variables: Mapping[str, str | None],
    plain: Mapping[str, str],
    ignored: Callable[[str], bool],
) -> tuple[WorkPlan, ...]:
    """The on_oom ladder; each rung changes the task as written, not the rung before."""
    rungs: list[WorkPlan] = []
    with said.reading("on_oom"):
        for number, rung in enumerate(readers.tables(said.all.get("on_oom", [])), start=1):
            try:
                changes = tables.read_table(rung, TASK["on_oom"].tables or {})
                values = cast(dict[str, object], filled(changes.get("vars", {}), Scope(scope.constants, scope.environ)))
                inner = overridden(scope, values)
                env = {**variables, **cast(dict[str, str | None], changes.get("env", {}))}
                rungs.append(work_plan(raw, env_plan(env, plain, inner), inner, ignored))
            except BadValueError as error:
                raise BadValueError(f"rung {number}: {' '.join(('.'.join(error.inside), error.words)).strip()}") from None
    return tuple(rungs)


def _fields(said: Said, scope: Scope) -> tuple[dict[str, object], list[tuple[str, Moving]]]:
    fixed: dict[str, object] = {}
    moving: list[tuple[str, Moving]] = []
    needs_scope = replace(scope, refused={**scope.refused, **_NOT_IN_NEEDS})
    needs_scope.columns = {key: at for key, at in scope.columns.items() if key != "shard"}
    for key, value in said.all.items():
        if key in _APART or key not in TASK:
            continue
        try:
            if value.__class__ in _PARTS and has_slots(value):
                inner = needs_scope if key in ("needs", "after") else scope
                value = compiled(value, inner, textual=TASK[key].kind.textual)
                if isinstance(value, Moving):
                    moving.append((key, value))
                    continue
            fixed[key] = said.context.read(key, value)
        except BadValueError as error:
            said.note(error, key)
    return fixed, moving


def _tables(plan: Plan, scope: Scope) -> None:
    said = plan.said
    if "metrics" in said.all:
        with said.reading("metrics"):
            made = compiled(said.all["metrics"], scope, textual=True)
            tables.metrics({} if isinstance(made, Moving) else made, "")
            plan.metrics = made
    if "watch" in said.all:
        with said.reading("watch"):
            plan.watch = tables.watch(said.all["watch"])
    if "slurm" in said.all:
        with said.reading("slurm"):
            plan.slurm = tables.slurm(said.all["slurm"])


def _note_later(plan: Plan) -> None:
    said = plan.said
    for key in said.all:
        if TASK[key].later:
            said.later(key, key)
    for key, words in later(plan.fixed, plan.fixed.get("nodes", 1)):
        said.later(key, words)
