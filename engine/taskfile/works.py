"""What the tasks of one entry execute: command, environment, the on_oom ladder, the resume command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ..core.spec import Command, Work
from . import kinds
from .fingerprint import fingerprint
from .moving import Moving, Values, command
from .placeholders import Row, Scope, Template, template
from .problems import BadValueError, did_you_mean

Env = tuple[tuple[str, str | None], ...]
_COMMAND = kinds.command()


@dataclass(frozen=True, slots=True)
class EnvPlan:
    """An environment: fixed, or made for each task."""

    names: tuple[str, ...]
    parts: tuple[Template | None, ...]
    fixed: Env | None

    def make(self, row: Row) -> Env:
        if self.fixed is not None:
            return self.fixed
        texts = [part if part is None or isinstance(part, str) else part(row) for part in self.parts]
        return tuple(zip(self.names, texts, strict=True))


def env_plan(variables: Mapping[str, str | None], plain: Mapping[str, str], scope: Scope) -> EnvPlan:
    """*plain* (from env_file, no placeholders) below *variables*."""
    parts: dict[str, Template | None] = {**plain}
    for name, text in variables.items():
        parts.pop(name, None)
        try:
            parts[name] = None if text is None else template(text, scope)
        except BadValueError as error:
            raise BadValueError(error.words, name) from None
    values = tuple(parts.values())
    if any(part is not None and not isinstance(part, str) for part in values):
        return EnvPlan(tuple(parts), values, None)
    return EnvPlan(tuple(parts), values, tuple(zip(parts, cast("Sequence[str | None]", values), strict=True)))


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """Command and environment of an entry's tasks."""

    command: object
    """Command or Moving."""
    env: EnvPlan
    counts: tuple[int, ...]
    """Positions in the environment of what belongs to the fingerprint."""

    @property
    def fixed(self) -> bool:
        return not isinstance(self.command, Moving) and self.env.fixed is not None

    def make(self, row: Row, values: Values) -> Work:
        made = self.command
        if isinstance(made, Moving):
            made = made.make(row, values)
        if not isinstance(made, (str, tuple)):
            made = _COMMAND.read(made)
        elif not made:
            raise BadValueError("must not be empty")
        return Work(cast("Command", made), self.env.make(row))

    def identity(self, work: Work, files: str, shard: tuple[int, int] | None) -> str:
        """The fingerprint: a shard does other work than its siblings, though the command may be the same."""
        variables = [work.env[at] for at in self.counts]
        return fingerprint(work.command, variables + list(work.env[-2:]) if shard else variables, files)


def work_plan(raw: str | tuple[str, ...], env: EnvPlan, scope: Scope) -> WorkPlan:
    """Raises BadValueError about the command."""
    ignored = scope.secret
    counts = tuple(at for at, name in enumerate(env.names) if not ignored(name))
    return WorkPlan(command(raw, scope), env, counts)


def overridden(scope: Scope, rung: Mapping[str, object]) -> Scope:
    """The scope in which the names of *rung* have other values. Raises BadValueError for a name that nothing has."""
    known = [*scope.columns, *scope.constants]
    for name in rung:
        if name not in known:
            hint = did_you_mean(name, known)
            raise BadValueError(
                f"changes {name}, which is in neither matrix nor [vars]" + (f": {hint}" if hint else "")
            )
    columns = {name: at for name, at in scope.columns.items() if name not in rung}
    return replace(scope, columns=columns, constants={**scope.constants, **rung})
