"""What an entry's tasks execute: command and environment, the same on each rung of on_oom, the resume command."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from . import readers, tables
from .card_profiles import WHERE, CardProfile
from .distributed import variables_of
from .envfile import read_env_file
from .moving import command
from .placeholders import Row, Scope, escaped, lone
from .problems import BadValueError
from .said import Said
from .schema import TASK
from .scopes import Scopes
from .values import is_list, is_table
from .works import EnvPlan, WorkPlan, env_plan, overridden, work_plan

RawCommand = str | tuple[str, ...]

_NO_VARIABLES = EnvPlan((), (), ())


@dataclass(frozen=True, slots=True)
class Executed:
    """How to make what tasks execute."""

    work: WorkPlan
    rungs: tuple[WorkPlan, ...] = ()
    resume: object = None
    """Command, Moving or None."""
    rung_resumes: tuple[object, ...] = ()
    """The same on each rung of on_oom: Command or Moving."""
    cards: tuple[tuple[CardProfile, Executed], ...] = ()
    """The same on cards that a [[gpu_profile]] is for, the largest first."""


@dataclass(frozen=True, slots=True)
class Executes:
    """The same for all tasks of an entry, or by the columns whose values are whole tables of it."""

    columns: tuple[int, ...]
    made: Mapping[Row, Executed]

    @property
    def all_alike(self) -> bool:
        return not self.columns

    def of(self, row: Row) -> Executed:
        return self.made[tuple([row[at] for at in self.columns])]


def executes_of(said: Said, scopes: Scopes) -> Executes:
    """Read `command`, `env`, `on_oom` and what belongs to them. Without all that is asked for where something is wrong
    with them; what, is among the problems then."""
    names = tuple(dict.fromkeys(name for name in _whole_tables(said) if name in scopes.table.keys))
    columns = tuple([scopes.work.columns[name] for name in names])
    variables = _Variables(said, scopes)
    made: dict[Row, Executed] = {}
    for row, pinned in (_values(said, scopes, names, columns) if names else _ALL_ALIKE).items():
        executed = _Reading(said, scopes.work, variables, pinned).executed()
        if executed is not None:
            made[row] = executed
    return Executes(columns, made)


_ALL_ALIKE: Mapping[Row, Mapping[str, object]] = {(): {}}


def _values(
    said: Said, scopes: Scopes, names: tuple[str, ...], columns: tuple[int, ...]
) -> Mapping[Row, Mapping[str, object]]:
    """The values of these columns, by their texts."""
    with said.reading("env" if any(isinstance(raw, str) for raw in said.layers("env")) else "on_oom"):
        for name in names:
            scopes.work.check_partial(name)
    found: dict[Row, Mapping[str, object]] = {}
    for row, values in zip(scopes.table.texts, scopes.table.values, strict=True):
        pinned = dict(zip(names, [values[at] for at in columns], strict=True))
        found.setdefault(tuple([row[at] for at in columns]), pinned)
    return found or {(): dict.fromkeys(names, _UNKNOWN)}


_UNKNOWN = object()
"""The value of a column of a matrix that could not be read."""


def _whole_tables(said: Said) -> Iterator[str]:
    """The placeholders that stand where a table or a list of tables may stand."""
    ladder = said.all.get("on_oom")
    rungs = ladder if is_list(ladder) else ()
    parts = [part for rung in rungs if is_table(rung) for part in (rung.get("vars"), rung.get("env"))]
    for raw in (*said.layers("env"), ladder, *rungs, *parts):
        if isinstance(raw, str) and (name := lone(raw)):
            yield name


class _Variables:
    """What stands below `env`: the file of env_file, and what [distributed] sets."""

    def __init__(self, said: Said, scopes: Scopes) -> None:
        self.plain: Mapping[str, str] = {}
        if "env_file" in said.all:
            path = said.alone("env_file", scopes.other, None)
            with said.reading("env_file"):
                if isinstance(path, str):
                    folder = said.context.checker.source.folder
                    self.plain = read_env_file(os.path.join(folder, os.path.expanduser(path)))
        self.distributed: Mapping[str, str | None] = variables_of(said, scopes)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Of one entry, with the values of the columns that stand for whole tables."""

    said: Said
    scope: Scope
    variables: _Variables
    pinned: Mapping[str, object]
    changed: Mapping[str, object] = field(default_factory=dict[str, object])
    """Variables that a [[gpu_profile]] changes."""
    changed_env: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])

    def executed(self) -> Executed | None:
        made = self._executed()
        profiles = self.said.context.profiles
        self.said.context.placeholders.update(self.scope.columns if profiles else ())
        if made is None or not profiles:
            return made
        on_cards = [(profile, self._on_card(profile)) for profile in profiles]
        return replace(made, cards=tuple((profile, other) for profile, other in on_cards if other is not None))

    def _on_card(self, profile: CardProfile) -> Executed | None:
        """The same with the values of a profile, as far as this entry has such variables."""
        known = [*self.scope.columns, *self.scope.constants]
        values = {name: value for name, value in profile.vars.items() if name in known}
        try:
            scope = self._scope_with(values)
        except BadValueError as error:
            self.said.failed = True
            self.said.context.checker.note(error, ("gpu_profile", profile.place, "vars"), key="vars", where=WHERE)
            return None
        return replace(self, scope=scope, changed=values, changed_env=profile.env)._executed()

    def _executed(self) -> Executed | None:
        env = self._env()
        work = self._work(env)
        resume = self._resume(self.scope)
        rungs, resumes = self._rungs(env, resumes=resume is not None) if "on_oom" in self.said.all else ((), ())
        return None if work is None else Executed(work, rungs, resume, resumes)

    def _env(self) -> Mapping[str, str | None]:
        """Before placeholders are filled."""
        table, layers = dict(self.variables.distributed), self.said.layers("env")
        for raw in layers:
            with self.said.reading("env"):
                table |= readers.env(self._table(raw, {}))
        return {**table, **self.changed_env}

    def _command(self) -> RawCommand:
        return cast("RawCommand", TASK["command"].kind.read(self.said.all["command"]))

    def _work(self, env: Mapping[str, str | None]) -> WorkPlan | None:
        plan = _NO_VARIABLES
        if env or self.variables.plain:
            with self.said.reading("env"):
                plan = env_plan(env, self.variables.plain, self.scope)
        with self.said.reading("command"):
            return work_plan(self._command(), plan, self.scope) if "command" in self.said.all else None
        return None

    def _rungs(
        self, env: Mapping[str, str | None], *, resumes: bool
    ) -> tuple[tuple[WorkPlan, ...], tuple[object, ...]]:
        """The ladder; each rung changes the task as written, not the rung before. What it resumes was started with
        other variables than those as written, too."""
        rungs: list[WorkPlan] = []
        resumed: list[object] = []
        with self.said.reading("on_oom"):
            raw: RawCommand = () if self.said.failed else self._command()
            ladder = self._table(self.said.all["on_oom"], [])
            ladder = [self._table(rung, {}) for rung in ladder] if is_list(ladder) else ladder
            for number, rung in enumerate(readers.tables(ladder), start=1):
                try:
                    changed, scope = self._changed_by(rung)
                    plan = env_plan({**env, **changed}, self.variables.plain, scope)
                    rungs.append(work_plan(raw, plan, scope))
                except BadValueError as error:
                    words = f"{'.'.join(error.inside)} {error.words}".strip()
                    raise BadValueError(f"rung {number}: {words}") from None
                if resumes:
                    resumed.append(self._resume(scope))
        return tuple(rungs), tuple(resumed)

    def _changed_by(self, rung: Mapping[str, object]) -> tuple[Mapping[str, str | None], Scope]:
        """The variables of a rung, and the scope with its values for placeholders."""
        raw = {key: self._table(value, {}) if key in ("vars", "env") else value for key, value in rung.items()}
        changes = tables.read_table(raw, TASK["on_oom"].tables or {})
        values = cast("Mapping[str, object]", changes.get("vars", {}))
        return cast("Mapping[str, str | None]", changes.get("env", {})), self._scope_with(values)

    def _scope_with(self, values: Mapping[str, object]) -> Scope:
        """Raises BadValueError."""
        scope = overridden(self.scope, values)
        if not values:
            return scope
        expanded = self.said.context.expanded_with({**self.changed, **values})
        return replace(scope, constants={**scope.constants, **expanded})

    def _resume(self, scope: Scope) -> object:
        said = self.said
        if "resume_command" in said.all:
            with said.reading("resume_command"):
                raw = said.context.read("resume_command", said.all["resume_command"])
                return command(cast("RawCommand", raw), scope)
        elif "resume_when" in said.own:
            said.note(BadValueError("says nothing without resume_command"), "resume_when")
        return None

    def _table(self, raw: object, unknown: object) -> object:
        """*raw* as if the value of a lone placeholder had been written there; *unknown* where that is not known."""
        name = lone(raw) if isinstance(raw, str) else None
        if name is None:
            return raw
        if name in self.pinned:
            value = self.pinned[name]
            return unknown if value is _UNKNOWN else _as_written(value)
        if name in self.scope.columns or name in self.scope.runtime:
            raise BadValueError(f"must not be text, which {{{name}}} is")
        constant = self.scope.constant(name)
        if constant is None:
            raise self.scope.refuse(name)
        return _as_written(constant[0])


def _as_written(value: object) -> object:
    """What reads as *value* and nothing else, though it is searched for placeholders."""
    if isinstance(value, str):
        return escaped(value)
    if is_table(value):
        return {key: _as_written(item) for key, item in value.items()}
    return [_as_written(item) for item in value] if is_list(value) else value
