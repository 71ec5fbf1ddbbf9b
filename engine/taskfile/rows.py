"""From an entry's plan to its tasks. A deck of 100,000 tasks spends its loading time here."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, cast

from ..core.spec import CardWork, Command, Extras, Policy, Resources, Resume, TaskSpec, Work
from . import cluster, fields, tables
from .entry import Plan
from .executes import Executed
from .fingerprint import digest_files
from .interpreter import Python, named_python
from .matrix import MAX_TASKS, MISSING
from .moving import Moving, Values
from .names import check_name, clash
from .placeholders import Row
from .problems import BadValueError, SkipError
from .schema import TASK
from .works import WorkPlan

Said = dict[str, object]
Shard = tuple[int, int]
"""A shard's number, from 0, and how many there are."""

_SHAPE_KEYS = frozenset((*fields.RESOURCE_KEYS, *fields.POLICY_KEYS, "nproc", "progress"))
_EXTRA_KEYS = frozenset(("launch", "nproc", "nodes", "progress", "metrics", "watch", "slurm"))
_NO_EXTRAS = Extras()
_MAX_CHARACTERS = 2**30
"""Of the commands and variables of all tasks."""


class Rows:
    """Makes the tasks of one entry."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.context = plan.said.context
        self._key = ""
        self._folder = self.context.checker.source.folder
        self._shape_moves = any(key in _SHAPE_KEYS for key, _ in plan.moving) or any(
            isinstance(table, Moving) for table in (plan.metrics, plan.watch, plan.slurm)
        )
        self._executed_alike = plan.executes.all_alike
        self._work_stays = self._executed_alike and not any(
            key in ("fingerprint_files", "cwd") for key, _ in plan.moving
        )
        self._shape: tuple[Resources, Policy, Extras] | None = None
        self._work: tuple[Work, str] | None = None
        self._ladder: tuple[Work, ...] | None = None
        self._known: dict[object, object] = {}
        self._places_known: dict[tuple[object, object], tuple[str, Python]] = {}

    def tasks(self, position: int) -> list[TaskSpec]:
        """The tasks, numbered from *position* in the file's order. Raises SkipError when one of them is wrong."""
        self._check_count(position)
        name, made = self.plan.name, list[TaskSpec]()
        names: list[str] = []
        for row, values in zip(self.plan.scopes.table.texts, self.plan.scopes.table.values, strict=True):
            base = name if isinstance(name, str) else name(row)
            names.append(base)
            if self.plan.scopes.shards is None:
                task = self._task(base, (*row, base), (*values, base), None, position + len(made))
                if task is not None:
                    made.append(task)
            else:
                self._shards(base, row, values, position, made)
        if len(set(names)) != len(names):
            self.plan.said.note(BadValueError(clash(self.plan.entry, names, self.plan.scopes.table)), "name")
        if self.plan.said.failed:
            raise SkipError
        return made

    def _check_count(self, before: int) -> None:
        count = len(self.plan.scopes.table.texts) * (self.plan.scopes.shards or 1)
        if before + count > MAX_TASKS:
            file = f", the file {before + count:,}" if before else ""
            words = f"makes {count:,} tasks{file}; more than {MAX_TASKS:,} are refused"
            self.plan.said.note(BadValueError(words), "shards" if self.plan.scopes.shards else "matrix")
            raise SkipError

    def _shards(self, base: str, row: Row, values: Values, position: int, made: list[TaskSpec]) -> None:
        count, before = self.plan.scopes.shards or 0, len(made)
        for shard in range(count):
            name = f"{base}-shard{shard}"
            texts = (*row, name, str(shard), str(count))
            task = self._task(name, texts, (*values, name, shard, count), (shard, count), position + len(made))
            if task is not None:
                made.append(task)
        if len(made) == before and f"{base}-shard0" in self.context.disabled:
            self.context.disabled[base] = self.plan.said.line
        else:
            self.context.sharded.add(base)

    def _task(self, name: str, row: Row, values: Values, shard: Shard | None, position: int) -> TaskSpec | None:
        self._key = "name"
        try:
            check_name(name)
            return self._spec(name, row, values, shard, position)
        except BadValueError as error:
            self._note(error, name)
            self._note_others(name, row, values, shard)
            return None

    def _note(self, error: BadValueError, name: str) -> None:
        self.plan.said.note(error, self._key, where="" if self._key == "name" else f'task "{name}"')

    def _note_others(self, name: str, row: Row, values: Values, shard: Shard | None) -> None:
        """Of a task that cannot be made, note what else is wrong with it."""
        said, cwd, executed = dict(self.plan.fixed), self._folder, self.plan.executes.of(row)
        for key, moving in self.plan.moving:
            self._key = key
            with self._noting(name):
                said[key] = TASK[key].kind.read(moving.make(row, values))
        with self._noting(name):
            cwd, _ = self._places(said.get("cwd"), said.get("python"))
        with self._noting(name):
            self._shapes(said, row, values, cwd)
        with self._noting(name):
            work, _ = self._works(executed.work, row, values, said.get("fingerprint_files"), cwd, shard)
            self._ladders(executed, row, values, work, shard)
        with self._noting(name):
            if executed.resume is not None:
                self._resume(executed, row, values, said.get("resume_when"), cwd)

    @contextmanager
    def _noting(self, name: str) -> Generator[None]:
        try:
            yield
        except BadValueError as error:
            self._note(error, name)

    def _spec(self, name: str, row: Row, values: Values, shard: Shard | None, position: int) -> TaskSpec | None:
        plan, context = self.plan, self.context
        said = self._said(row, values) if plan.moving else plan.fixed
        get = said.get
        if get("enabled") is False:
            context.disabled[name] = plan.said.line
            context.disabled_rounds.add((cast("str", get("group", "")), cast("int", get("round", 0))))
            return None
        cwd, python = self._places(get("cwd"), get("python"))
        resources, policy, extras = self._shapes(said, row, values, cwd)
        executed = plan.executes.of(row)
        work, identity = self._works(executed.work, row, values, get("fingerprint_files"), cwd, shard)
        outputs = cast("tuple[str, ...]", get("outputs", ()))
        ladder = self._ladders(executed, row, values, work, shard) if executed.rungs else ()
        resume = None if executed.resume is None else self._resume(executed, row, values, get("resume_when"), cwd)
        return TaskSpec(
            name,
            plan.entry,
            position,
            work,
            identity,
            resources,
            policy,
            cwd,
            python.path,
            python.env,
            cast("tuple[str, ...]", get("env_required", ())),
            self._params(values, row, shard),
            cast("tuple[str, ...]", get("tags", ())),
            cast("int", get("round", 0)),
            cast("str", get("group", "")),
            cast("Literal['ended']", get("round_barrier", context.barrier)),
            cast("tuple[str, ...]", get("needs", ())),
            cast("tuple[str, ...]", get("after", ())),
            cast("int", get("priority", 0)),
            below(cwd, outputs) if outputs else (),
            ladder,
            resume,
            plan.said.line,
            extras,
            self._cards(executed, row, values, CardWork("", 0, work, ladder, resume), shard) if executed.cards else (),
        )

    def _said(self, row: Row, values: Values) -> Said:
        """All keys that are read alike, for one task. Equal values are read once and kept once."""
        said, known = dict(self.plan.fixed), self._known
        for key, moving in self.plan.moving:
            self._key = key
            value = moving.make(row, values)
            try:
                said[key] = known[key, value.__class__, value]
            except KeyError:
                said[key] = known[key, value.__class__, value] = TASK[key].kind.read(value)
            except TypeError:
                said[key] = TASK[key].kind.read(value)
        return said

    def _places(self, cwd: object, python: object) -> tuple[str, Python]:
        known = self._places_known.get((cwd, python))
        if known is not None:
            return known
        self._key = "cwd"
        path = os.path.join(self._folder, os.path.expanduser(cast("str", cwd))) if cwd else self._folder
        path = os.path.normpath(path) if cwd and ".." not in path else path
        self._key = "python"
        chosen = self.context.python
        if isinstance(python, str):
            chosen = named_python(python, self._folder, self.context.environ)
        self._places_known[cwd, python] = path, chosen
        return path, chosen

    def _shapes(self, said: Said, row: Row, values: Values, cwd: str) -> tuple[Resources, Policy, Extras]:
        if self._shape is not None and not self._shape_moves:
            return self._shape
        self._key = ""
        metrics = self.plan.metrics
        if isinstance(metrics, Moving):
            metrics = metrics.make(row, values)
        extras = _NO_EXTRAS
        if self._all_of_a_node(said) or self.plan.slurm or not _EXTRA_KEYS.isdisjoint(self.plan.said.all):
            extras = self._extras(said, row, values, metrics, cwd)
        shapes = self.context.shapes
        policy = fields.policy_of(said, shapes, on_slurm=self.context.on_slurm)
        self._shape = fields.resources_of(said, shapes), policy, extras
        return self._shape

    def _all_of_a_node(self, said: Said) -> bool:
        return self.context.on_slurm and said.get("gpus") == "all"

    def _extras(self, said: Said, row: Row, values: Values, metrics: object, cwd: str) -> Extras:
        read = tables.metrics(metrics, cwd) if metrics else ()
        watch = self.plan.watch
        if isinstance(watch, Moving):
            self._key = "watch"
            watch = tables.watch(watch.make(row, values))
        slurm = self.plan.slurm
        if isinstance(slurm, Moving):
            self._key = "slurm"
            slurm = cast("cluster.Options", slurm.make(row, values))
        self._key = ""
        if self._all_of_a_node(said):
            slurm = cluster.with_all_gpus(slurm, self.context.gpu_count)
        return self.context.share(fields.extras(said, read, watch, slurm))

    def _works(
        self, plan: WorkPlan, row: Row, values: Values, files: object, cwd: str, shard: Shard | None
    ) -> tuple[Work, str]:
        if self._work is not None:
            return self._work
        self._key = "fingerprint_files"
        digest = self._digest(files, cwd) if files else ""
        self._key = "command"
        work = _sharded(plan.make(row, values), shard)
        made = work, plan.identity(work, digest, shard)
        if self._work_stays and plan.fixed and shard is None:
            self._work = made
        self._check_text(plan, work)
        return made

    def _check_text(self, plan: WorkPlan, work: Work) -> None:
        """Count the text that was made for one task alone."""
        if isinstance(plan.command, Moving):
            command = work.command
            self.context.characters += len(command) if isinstance(command, str) else sum(map(len, command))
        if plan.env.fixed is None:
            made = zip(plan.env.parts, work.env, strict=False)
            self.context.characters += sum(len(text or "") for part, (_, text) in made if callable(part))
        if self.context.characters > _MAX_CHARACTERS:
            words = f"is too long for so many tasks: together they come to more than {_MAX_CHARACTERS:,} characters"
            self.plan.said.note(BadValueError(words), "command")
            raise SkipError

    def _digest(self, files: object, cwd: str) -> str:
        known = (files, cwd)
        if known not in self._known:
            self._known[known] = digest_files(cast("tuple[str, ...]", files), cwd)
        return cast("str", self._known[known])

    def _ladders(
        self, executed: Executed, row: Row, values: Values, work: Work, shard: Shard | None
    ) -> tuple[Work, ...]:
        if self._ladder is not None:
            return self._ladder
        self._key = "on_oom"
        ladder = tuple(_sharded(rung.make(row, values), shard) for rung in executed.rungs)
        for number, rung in enumerate(ladder, start=1):
            if rung == work:
                raise BadValueError(f"rung {number} changes neither the command nor the environment")
        fixed = self._executed_alike and executed.work.fixed and all(rung.fixed for rung in executed.rungs)
        if fixed and shard is None:
            self._ladder = ladder
        return ladder

    def _cards(
        self, executed: Executed, row: Row, values: Values, plain: CardWork, shard: Shard | None
    ) -> tuple[CardWork, ...]:
        """The work on cards that a [[gpu_profile]] is for; () where that makes no difference on any of them."""
        self._key = "command"
        made: list[CardWork] = []
        for profile, other in executed.cards:
            work = _sharded(other.work.make(row, values), shard)
            ladder = tuple(_sharded(rung.make(row, values), shard) for rung in other.rungs)
            resume = None
            if plain.resume is not None:
                resume = replace(self._resume(other, row, values, None, ""), when=plain.resume.when)
            made.append(CardWork(profile.name, profile.min_mib, work, ladder, resume))
        alike = all(replace(card, profile="", min_mib=0) == plain for card in made)
        return () if alike else tuple(made)

    def _resume(self, executed: Executed, row: Row, values: Values, when: object, cwd: str) -> Resume:
        self._key = "resume_command"
        first, *rungs = [_made(command, row, values) for command in (executed.resume, *executed.rung_resumes)]
        globs = below(cwd, (cast("str", when),)) if when else ()
        return Resume(first, globs, tuple(rungs) if any(rung != first for rung in rungs) else ())

    def _params(self, values: Values, row: Row, shard: Shard | None) -> dict[str, str]:
        table = self.plan.scopes.table
        params = dict(zip(table.keys, row, strict=False))
        if table.partial:
            params = {key: params[key] for key, value in zip(table.keys, values, strict=False) if value is not MISSING}
        if shard is not None:
            params["shard"] = str(shard[0])
        return params


def _made(command: object, row: Row, values: Values) -> Command:
    if isinstance(command, Moving):
        command = TASK["command"].kind.read(command.make(row, values))
    return cast("Command", command)


def below(cwd: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Absolute paths; relative ones are in *cwd*."""
    return tuple(
        [path if path[0] == "/" else os.path.join(cwd, os.path.expanduser(path).removeprefix("./")) for path in paths]
    )


def _sharded(work: Work, shard: Shard | None) -> Work:
    if shard is None:
        return work
    return Work(work.command, (*work.env, ("GPUDECK_SHARD", str(shard[0])), ("GPUDECK_SHARDS", str(shard[1]))))
