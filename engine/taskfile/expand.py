"""From one entry to its tasks: layers are merged, placeholders filled and values read for each of them in turn.

A key without placeholders of the matrix is read once, for all. A key that is wrong has its default from there on, so
that all else of the file is checked as if it were right; the file is refused in the end.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar, cast

from ..core.spec import CardWork, Command, Extras, Metric, Policy, Resources, Resume, TaskSpec, Watch, Work
from . import kinds
from .check import Checker, check_name
from .cluster import with_all_gpus
from .command import (
    Python,
    digest_files,
    filled_command,
    fingerprint,
    ignoring,
    named_python,
    read_env_file,
)
from .kinds import read_table, record
from .layers import Layers, RawEntry, expanded_with
from .matrix import MAX_TASKS, Combination, Grid, grid
from .placeholders import RUNTIME, Scope, Values, as_written, fill, fill_text, lone, marker, names_in
from .problems import BadValueError, SkipError, did_you_mean
from .schema import DISTRIBUTED, IGNORED_VARIABLES, OF_ALL, RUNG, SLURM, TASK
from .settings import WHERE, CardProfile
from .shell import fill_command
from .values import as_text, compact_json, is_list, shown

T = TypeVar("T", bound=Hashable)
Shard = tuple[int, int]
"""A shard's number, from 0, and how many there are."""
Table = Mapping[str, object]
Variables = Mapping[str, "str | None"]

_ALONE = frozenset({"matrix", "shards", "nodes", "fingerprint_ignore"})
"""Keys that are the same for all tasks of an entry."""
_EXECUTED = ("command", "env", "distributed", "resume_command")
"""What the rungs of on_oom and the profiles of cards change."""
_STAYING = frozenset({"command", "env", "resume_command", "on_oom", "slurm"})
"""Keys in which what is known only at the start stays."""
_EXTRAS = frozenset({"launch", "nproc", "nodes", "progress", "metrics", "watch", "slurm"})
_NO_EXTRAS = Extras()
_WHOLE = re.compile(r"-?\d+")
_SIMPLE = (str, int, bool, float)
_MAX_CHARACTERS = 2**30
"""Of the commands and variables of all tasks."""

_IN_NAME: Mapping[str, str] = dict.fromkeys(("task", "shard", "shards", *RUNTIME), "may not stand in name")
_IN_NEEDS: Mapping[str, str] = dict.fromkeys(("attempt", "gpu_ids", "shard"), "may not stand in needs and after")
_NO_SHARDS: Mapping[str, str] = dict.fromkeys(("shard", "shards"), "means something only in a task with shards")
_MOVES = "differs between the tasks of the entry, so it may not stand here"


@dataclass(slots=True)
class Context:
    """The file around its entries, and what they leave for the checks of the whole."""

    checker: Checker
    layers: Layers
    environ: Mapping[str, str]
    constants: dict[str, object]
    """[vars] and {deck}."""
    log_dir: str
    python: Python
    barrier: Literal["succeeded", "ended"]
    gpu_count: int | None
    fixed_shards: Mapping[str, int]
    on_slurm: bool
    profiles: tuple[CardProfile, ...]
    """[[gpu_profile]], the largest cards first."""
    placeholders: set[str]
    """Names that [vars] or the matrix of some entry has."""
    resolved_shards: dict[str, int] = field(default_factory=dict[str, int])
    """What "gpus" was resolved to, by entry."""
    disabled: dict[str, int] = field(default_factory=dict[str, int])
    """Names of tasks with enabled = false and their lines."""
    disabled_rounds: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Group and round of these."""
    sharded: set[str] = field(default_factory=set[str])
    """What tasks with shards are called without their shard."""
    nameless: bool = False
    """There is an entry of which it is not known what its tasks are called."""
    characters: int = 0
    """In the commands and variables that were made for single tasks."""
    scopes: dict[tuple[object, ...], _Scopes] = field(default_factory=dict[tuple[object, ...], "_Scopes"])
    _shared: dict[Hashable, object] = field(default_factory=dict[Hashable, object])
    _read: dict[Hashable, object] = field(default_factory=dict[Hashable, object])
    _places: dict[tuple[object, object], tuple[str, Python]] = field(
        default_factory=dict[tuple[object, object], tuple[str, Python]]
    )

    _digests: dict[tuple[object, str], str] = field(default_factory=dict[tuple[object, str], str])

    @property
    def folder(self) -> str:
        return self.checker.source.folder

    def digest(self, files: tuple[str, ...], cwd: str) -> str:
        """Of the contents of *files*; "" of none. Raises BadValueError."""
        if (files, cwd) not in self._digests:
            self._digests[files, cwd] = digest_files(files, cwd) if files else ""
        return self._digests[files, cwd]

    def share(self, value: T) -> T:
        """An equal value that is kept already, else this one."""
        return cast("T", self._shared.setdefault((value.__class__, value), value))

    def read(self, key: str, value: object) -> object:
        """What a task's key means by *value*. Raises BadValueError."""
        if value.__class__ not in _SIMPLE:
            return TASK[key].kind.read(value)
        known = (key, value.__class__, value)
        if known not in self._read:
            self._read[known] = TASK[key].kind.read(value)
        return self._read[known]

    def place(self, cwd: object, python: object) -> tuple[str, Python]:
        """Where a task runs, and with which Python. Raises BadValueError about the latter."""
        if (cwd, python) not in self._places:
            folder = self.folder
            path = os.path.join(folder, os.path.expanduser(cast("str", cwd))) if cwd else folder
            path = os.path.normpath(path) if cwd and ".." not in path else path
            chosen = self.python if python is None else named_python(cast("str", python), folder, self.environ)
            self._places[cwd, python] = path, chosen
        return self._places[cwd, python]


class _Scopes(NamedTuple):
    """What may stand in the keys of an entry."""

    name: Scope
    needs: Scope
    work: Scope
    other: Scope

    def of(self, key: str) -> Scope:
        if key == "name":
            return self.name
        return self.work if key in _STAYING else self.needs if key in ("needs", "after") else self.other


class _Row:
    """What placeholders stand for in one task."""

    def __init__(self, cells: Mapping[str, object]) -> None:
        self.cells = cells
        self._values: dict[int, dict[str, object]] = {}

    def of(self, scope: Scope) -> dict[str, object]:
        found = self._values.get(id(scope))
        if found is None:
            found = self._values[id(scope)] = {**scope.known, **self.cells}
        return found


class _Change(NamedTuple):
    """What a rung of on_oom, or a [[gpu_profile]], changes."""

    vars: Mapping[str, object]
    env: Mapping[str, object]


class Expansion:
    """One entry on its way to its tasks."""

    def __init__(self, entry: RawEntry, context: Context) -> None:
        self.entry = entry
        self.context = context
        self.fixed: dict[str, object] = {}
        """Keys whose values all tasks share, read."""
        self._raw: dict[str, object] = {}
        self._moving: list[str] = []
        self._expanded: dict[str, Mapping[str, object]] = {}

    def tasks(self, position: int) -> list[TaskSpec]:
        """The tasks, numbered from *position* in the file's order; what is wrong with them is among the problems.
        Raises SkipError where it is not known what they are called."""
        self.entry.check_keys()
        constants = {**self.context.constants, "nodes": 1}
        first = Scope(constants, self.context.environ)
        constants["nodes"] = self.fixed["nodes"] = self._alone("nodes", first, 1)
        self._grid = self._combinations(first)
        self._keys = self._grid.keys if self._grid else ()
        self._columns = frozenset(self._keys)
        first.refused = dict.fromkeys(self._columns, _MOVES)
        self._shards = self._number_of_shards(first)
        ignored = cast("tuple[str, ...]", self._alone("fingerprint_ignore", first, IGNORED_VARIABLES))
        self._ignores = ignoring(ignored)
        self._scopes = self._scopes_with(constants, ignored)
        self._read_fixed()
        if self._grid is None or "name" in self.entry.wrong:
            raise SkipError
        return self._expand(self._grid, position)

    # -- what is the same for all tasks --------------------------------------------------------------------------------

    def _alone(self, key: str, scope: Scope, default: object) -> object:
        """A key that must be the same for all tasks of the entry, read."""
        if key in self.entry.values:
            with self.entry.noting(key):
                raw = scope.checked(self.entry.values[key])
                return self.context.read(key, _typed(raw, scope.known, text=TASK[key].kind.textual))
        return default

    def _combinations(self, scope: Scope) -> Grid | None:
        """None: the matrix has mistakes."""
        if "matrix" not in self.entry.values:
            return Grid()
        with self.entry.noting("matrix"):
            return grid(self.entry.values["matrix"], scope)
        return None

    def _number_of_shards(self, scope: Scope) -> int | None:
        number = self._alone("shards", scope, None)
        if "shards" in self.entry.wrong:
            return 1
        if number != "gpus":
            return cast("int | None", number)
        name, context = str(self.entry.values.get("name", "")), self.context
        if name not in context.fixed_shards and context.gpu_count is None:
            return 1
        count = context.fixed_shards.get(name) or max(1, context.gpu_count or 1)
        context.resolved_shards[name] = count
        return count

    def _scopes_with(self, constants: dict[str, object], ignored: tuple[str, ...]) -> _Scopes:
        """Entries without a matrix share theirs."""
        context, grid = self.context, self._grid or Grid()
        alike = (constants["nodes"], bool(self._shards), ignored)
        if not grid.keys and alike in context.scopes:
            return context.scopes[alike]
        paired = {axis: f"is an axis of tables: use their keys ({keys})" for axis, keys in grid.paired.items()}
        refused = {**paired, **({} if self._shards else _NO_SHARDS)}
        columns = self._columns.union(["task"], ["shard", "shards"] if self._shards else [])
        in_work = {**constants, **{name: marker(name) for name in RUNTIME}}
        elsewhere = {**constants, "log_dir": context.log_dir}
        environ, partial = context.environ, grid.partial
        made = _Scopes(
            Scope(dict(constants), environ, self._columns, partial, {**paired, **_IN_NAME}),
            Scope(dict(elsewhere), environ, columns - {"shard"}, partial, {**refused, **_IN_NEEDS}),
            Scope(in_work, environ, columns, partial, refused, self._ignores),
            Scope(elsewhere, environ, columns, partial, refused),
        )
        if not grid.keys:
            context.scopes[alike] = made
        return made

    def _read_fixed(self) -> None:
        """Check the placeholders of all keys, and read those that all tasks share."""
        entry, row = self.entry, _Row({})
        for key, value in entry.values.items():
            if key not in TASK or key in _ALONE:
                continue
            if self._grid is None and (key == "on_oom" or names_in(value)):
                entry.wrong.add(key)
                continue
            with entry.noting(key):
                said = TASK[key].kind.read(value) if key == "name" else value
                self._raw[key] = self._scopes.of(key).checked(said)
        self._likely = self._known_texts()
        for key, raw in self._raw.items():
            if not self._scopes.of(key).columns.isdisjoint(names_in(raw)):
                self._moving.append(key)
                continue
            with entry.noting(key):
                self.fixed[key] = self._read(key, row)
        self._cards = [card for profile in self.context.profiles if (card := self._on_card(profile))]
        self._check_together(self.fixed)
        self._check_own()

    def _on_card(self, profile: CardProfile) -> tuple[CardProfile, _Change] | None:
        """What a profile changes of this entry, as far as it has such variables."""
        known = (*self._scopes.work.columns, *self._scopes.name.known)
        changes = {name: value for name, value in profile.vars.items() if name in known}
        self.context.placeholders |= self._columns
        key = "vars"
        try:
            self._with_vars(changes)
            key = "env"
            return profile, _Change(changes, cast("Table", self._scopes.work.checked(profile.env)))
        except BadValueError as error:
            self.context.checker.note(error, ("gpu_profile", profile.place, key), key=key, where=WHERE)
            return None

    def _check_own(self) -> None:
        own, watch = self.entry.own, self.fixed.get("watch")
        if "resume_when" in own and "resume_command" not in self.entry.values:
            self.entry.note(BadValueError("says nothing without resume_command"), "resume_when")
        if "watch" in own and isinstance(watch, Watch) and watch == Watch(action=watch.action):
            self.entry.note(BadValueError("looks for nothing: say silent, idle_gpu, log_size or pattern"), "watch")

    def _check_together(self, said: Table, where: str = "") -> None:
        """Note keys that contradict each other, as far as they are known and right."""
        unsettled = self.entry.wrong if where else self.entry.wrong.union(self._moving)
        for key, words, others in _contradictions(said, on_slurm=self.context.on_slurm):
            if unsettled.isdisjoint((key, *others)):
                self.entry.note(BadValueError(words), key, where=where)

    # -- one key, for one task -----------------------------------------------------------------------------------------

    def _read(self, key: str, row: _Row) -> object:
        """What a key means in one task. Raises BadValueError."""
        raw, values = self._raw[key], row.of(self._scopes.of(key))
        match key:
            case "name":
                return _checked_name(fill_text(cast("str", raw), values))
            case "env_file":
                path = os.path.expanduser(cast("str", self.context.read(key, fill(raw, values, text=True))))
                return read_env_file(os.path.join(self.context.folder, path))
            case "command" | "resume_command":
                return filled_command(raw, values, self._likely)
            case "env":
                return kinds.env(fill(self._table(key, values), values, text=True))
            case "distributed":
                return _told(read_table(fill(self._table(key, values), values), DISTRIBUTED))
            case "slurm":
                return tuple(read_table(self._asked(self._table(key, values), values), SLURM).items())
            case "metrics" | "watch":
                return TASK[key].kind.read(fill(self._table(key, values), values, text=True))
            case "on_oom":
                return self._ladder(raw, values)
            case _:
                return self.context.read(key, _typed(raw, values, text=TASK[key].kind.textual))

    def _table(self, key: str, values: Values) -> Mapping[str, object]:
        """A merged key as one table, its values as written."""
        raw = self._raw[key]
        layers = raw if key in self.entry.apart and is_list(raw) else [raw]
        tables = [kinds.table(_whole(layer, values)) for layer in layers]
        return {name: item for table in tables for name, item in table.items()}

    def _asked(self, table: Mapping[str, object], values: Values) -> Mapping[str, object]:
        """[slurm] with its values; what is put into lines of setup is quoted for the shell."""
        filled: dict[str, object] = {}
        for key, value in table.items():
            if key in OF_ALL:
                raise BadValueError("is one for all tasks: it belongs into [slurm]", key)
            text = key in SLURM and SLURM[key].kind.textual
            if key == "setup" and is_list(value):
                filled[key] = [self._line(line, values) for line in value]
            else:
                filled[key] = fill(value, values, text=text)
        return filled

    def _line(self, line: object, values: Values) -> object:
        return fill_command(line, values, self._likely) if isinstance(line, str) else line

    def _known_texts(self) -> Mapping[str, str]:
        """Texts of what is filled in at the start, as far as they are known now: may they stand inside quotes?"""
        context = self.context
        secret = {name: context.environ[name[4:]] for name in self._scopes.work.known if name.startswith("env.")}
        return {**secret, "python": context.python.path, "log_dir": context.log_dir, "run_dir": context.log_dir}

    def _ladder(self, raw: object, values: Values) -> tuple[_Change, ...]:
        """The rungs of on_oom; each changes the task as written, not the rung before."""
        ladder = _whole(raw, values)
        ladder = [_whole(rung, values) for rung in ladder] if is_list(ladder) else ladder
        rungs: list[_Change] = []
        for number, rung in enumerate(kinds.tables(ladder), start=1):
            try:
                said = read_table({key: _whole(item, values) for key, item in rung.items()}, RUNG)
                change = _Change(cast("Table", said.get("vars", {})), cast("Table", said.get("env", {})))
                self._with_vars(change.vars)
            except BadValueError as error:
                words = f"{'.'.join(error.inside)} {error.words}".strip()
                raise BadValueError(f"rung {number}: {words}") from None
            rungs.append(change)
        return tuple(rungs)

    def _with_vars(self, changes: Table) -> Table:
        """[vars] with *changes*, which may change keys of the matrix, too. Raises BadValueError."""
        known = [*self._scopes.work.columns, *self._scopes.name.known]
        for name in changes:
            if name not in known:
                hint = did_you_mean(name, known)
                words = f"changes {name}, which is in neither matrix nor [vars]"
                raise BadValueError(f"{words}: {hint}" if hint else words)
        text = compact_json(changes)
        if text not in self._expanded:
            layers = self.context.layers
            self._expanded[text] = expanded_with(changes, layers.vars_as_written, layers.vars, self.context.environ)
        return self._expanded[text]

    # -- its tasks -----------------------------------------------------------------------------------------------------

    def _expand(self, grid: Grid, position: int) -> list[TaskSpec]:
        self._check_count(len(grid.rows) * (self._shards or 1), position)
        template, known = cast("str", self._raw["name"]), self._scopes.name.known
        names = [fill_text(template, {**known, **row}) for row in grid.rows]
        self._moving = [key for key in self._moving if key != "name"]
        if len(set(names)) != len(names):
            self.entry.note(BadValueError(_clash(template, names, grid)), "name")
            raise SkipError
        made: list[TaskSpec] = []
        for base, row in zip(names, grid.rows, strict=True):
            before = len(made)
            for shard in range(self._shards or 1):
                name = base if self._shards is None else f"{base}-shard{shard}"
                numbers = None if self._shards is None else (shard, self._shards)
                with self.entry.noting("name"):
                    task = self._task(_checked_name(name), row, numbers, position + len(made))
                    made += [] if task is None else [task]
            if self._shards is not None and len(made) > before:
                self.context.sharded.add(base)
            elif self._shards is not None:
                self.context.disabled[base] = self.entry.line
        self.context.nameless |= "name" in self.entry.wrong
        return made

    def _check_count(self, count: int, before: int) -> None:
        if before + count > MAX_TASKS:
            file = f", the file {before + count:,}" if before else ""
            words = f"makes {count:,} tasks{file}; more than {MAX_TASKS:,} are refused"
            self.entry.note(BadValueError(words), "shards" if self._shards else "matrix")
            raise SkipError

    def _task(self, name: str, combination: Combination, shard: Shard | None, position: int) -> TaskSpec | None:
        """None: it is not enabled."""
        where, entry, context = f'task "{name}"', self.entry, self.context
        row = _Row({**combination, "task": name, **({} if shard is None else {"shard": shard[0], "shards": shard[1]})})
        said = self.fixed
        if self._moving:
            said = dict(said)
            for key in self._moving:
                with entry.noting(key, where):
                    said[key] = self._read(key, row)
            self._check_together(said, where)
        get = said.get
        if get("enabled") is False:
            context.disabled[name] = entry.line
            context.disabled_rounds.add((cast("str", get("group", "")), cast("int", get("round", 0))))
            return None
        cwd, python, files = context.folder, context.python, ""
        with entry.noting("python", where):
            cwd, python = context.place(get("cwd"), get("python"))
        with entry.noting("fingerprint_files", where):
            files = context.digest(cast("tuple[str, ...]", get("fingerprint_files", ())), cwd)
        try:
            plain = self._executed(_Change({}, {}), said, cwd, row, shard)
            cards = self._on_cards(plain, said, cwd, row, shard)
        except BadValueError as error:
            entry.note(error, "on_oom", where=where)
            plain, cards = CardWork("", 0, Work(())), ()
        self._count(plain.work)
        if plain.work in plain.ladder and not entry.wrong:
            number = plain.ladder.index(plain.work) + 1
            words = f"rung {number} changes neither the command nor the environment"
            entry.note(BadValueError(words), "on_oom", where=where)
        return record(
            TaskSpec,
            said,
            name=name,
            entry=entry.values["name"],
            position=position,
            work=plain.work,
            fingerprint=self._fingerprint(plain.work, files, shard),
            resources=context.share(record(Resources, said)),
            policy=context.share(_policy(said)),
            cwd=cwd,
            python=python.path,
            python_env=python.env,
            params=self._params(combination, shard),
            barrier=get("round_barrier", context.barrier),
            outputs=_below(cwd, cast("tuple[str, ...]", get("outputs", ()))),
            ladder=plain.ladder,
            resume=plain.resume,
            line=entry.line,
            extras=self._extras(said, cwd),
            cards=cards,
        )

    def _executed(self, card: _Change, said: Table, cwd: str, row: _Row, shard: Shard | None) -> CardWork:
        """What a task executes: at first, on each rung of on_oom, and to resume."""
        rungs = cast("Sequence[_Change]", said.get("on_oom", ())) if self.entry.wrong.isdisjoint(_EXECUTED) else ()
        changes = [card, *(_Change({**card.vars, **rung.vars}, {**card.env, **rung.env}) for rung in rungs)]
        made = [self._changed(change, said, row, number) for number, change in enumerate(changes)]
        work, *ladder = [self._work(changed, shard) for changed in made]
        resume = None
        if "resume_command" in said:
            first, *others = [cast("Command", changed["resume_command"]) for changed in made]
            when = _below(cwd, (cast("str", said["resume_when"]),)) if said.get("resume_when") else ()
            resume = Resume(first, when, tuple(others) if any(other != first for other in others) else ())
        return CardWork("", 0, work, tuple(ladder), resume)

    def _changed(self, change: _Change, said: Table, row: _Row, rung: int) -> Table:
        """What is executed with other values of variables. Raises BadValueError about the rung."""
        if change.vars:
            row = _Row({**row.cells, **self._with_vars(change.vars)})
            try:
                said = {**said, **{key: self._read(key, row) for key in _EXECUTED if key in said}}
            except BadValueError as error:
                raise BadValueError(f"rung {rung}: {error.words}") from None
        if change.env:
            filled = fill(change.env, row.of(self._scopes.work), text=True)
            return {**said, "env": {**cast("Table", said.get("env", {})), **cast("Table", filled)}}
        return said

    @staticmethod
    def _work(said: Table, shard: Shard | None) -> Work:
        env = dict(cast("Variables", said.get("env_file", {})))
        distributed, own = (cast("Variables", said.get(key, {})) for key in ("distributed", "env"))
        for name, text in {**distributed, **own}.items():
            env.pop(name, None)
            env[name] = text
        if shard is not None:
            env |= {"GPUDECK_SHARD": str(shard[0]), "GPUDECK_SHARDS": str(shard[1])}
        return Work(cast("Command", said.get("command", ())), tuple(env.items()))

    def _on_cards(self, plain: CardWork, said: Table, cwd: str, row: _Row, shard: Shard | None) -> tuple[CardWork, ...]:
        """What it executes on cards that a [[gpu_profile]] is for; () where that makes no difference on any of them."""
        cards = self._cards if self.entry.wrong.isdisjoint(_EXECUTED) else ()
        made = [self._executed(change, said, cwd, row, shard) for _, change in cards]
        if all(card == plain for card in made):
            return ()
        return tuple(
            replace(card, profile=profile.name, min_mib=profile.min_mib)
            for card, (profile, _) in zip(made, cards, strict=True)
        )

    def _fingerprint(self, work: Work, files: str, shard: Shard | None) -> str:
        """A shard does other work than its siblings, though the command may be the same."""
        own = work.env if shard is None else work.env[:-2]
        counted = [(name, text) for name, text in own if not self._ignores(name)]
        return fingerprint(work.command, [*counted, *work.env[len(own) :]], files)

    def _count(self, work: Work) -> None:
        """Count the text that was made for one task alone."""
        if "command" in self._moving:
            self.context.characters += sum(map(len, work.command))
        if "env" in self._moving:
            self.context.characters += sum(len(text or "") for _, text in work.env)
        if self.context.characters > _MAX_CHARACTERS:
            words = f"is too long for so many tasks: together they come to more than {_MAX_CHARACTERS:,} characters"
            self.entry.note(BadValueError(words), "command")
            raise SkipError

    def _params(self, combination: Combination, shard: Shard | None) -> dict[str, str]:
        params = {key: as_text(combination[key]) for key in self._keys if key in combination}
        return params if shard is None else {**params, "shard": str(shard[0])}

    def _extras(self, said: Table, cwd: str) -> Extras:
        all_of_a_node = self.context.on_slurm and said.get("gpus") == "all"
        if not all_of_a_node and _EXTRAS.isdisjoint(self.entry.values):
            return _NO_EXTRAS
        slurm = cast("tuple[tuple[str, object], ...]", said.get("slurm", ()))
        slurm = with_all_gpus(slurm, self.context.gpu_count) if all_of_a_node else slurm
        read = cast("tuple[Metric, ...]", said.get("metrics", ()))
        metrics = tuple(
            [replace(metric, file=os.path.join(cwd, metric.file)) if metric.file else metric for metric in read]
        )
        return self.context.share(record(Extras, said, metrics=metrics, slurm=slurm))


def _contradictions(said: Table, *, on_slurm: bool) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Keys that cannot be what they are beside others: the key, what to say of it, the others."""
    resources, policy = record(Resources, said), record(Policy, said)
    if resources.gpu_ids and isinstance(resources.gpus, int) and resources.gpus > len(resources.gpu_ids):
        yield "gpus", f"= {resources.gpus}, but gpu_ids names only {len(resources.gpu_ids)}", ("gpu_ids",)
    if policy.warn_signal is not None and policy.timeout_s is None and not on_slurm:
        yield "warn_signal", "says nothing without a timeout", ("timeout",)
    if policy.warn_signal is not None and policy.timeout_s is not None and policy.warn_before_s >= policy.timeout_s:
        shown = TASK["warn_before"].default.strip('"')
        words = f"comes {shown} before the end (warn_before), which is not shorter than the timeout"
        others = ("timeout", "warn_signal", "warn_before")
        yield ("warn_before", "is not shorter than the timeout", others) if "warn_before" in said else (
            "warn_signal", words, others
        )  # fmt: skip
    if "nproc" in said and said.get("launch", "command") == "command":
        yield "nproc", 'says nothing with launch = "command"', ("launch",)


def _policy(said: Table) -> Policy:
    """A launcher hands signals on to the ranks itself: from us they would get them twice."""
    launch, nproc = said.get("launch"), said.get("nproc")
    several = nproc != 1 if nproc is not None else said.get("gpus", 1) not in (0, 1)
    launched = launch in ("torchrun", "accelerate") or (launch == "auto" and several)
    scope = said.get("stop_scope", "leader" if launched else "group")
    return record(Policy, said, stop_scope=scope, merge_stderr=said.get("stderr") == "merge")


def _checked_name(name: str) -> str:
    check_name(name)
    return name


def _typed(raw: object, values: Values, *, text: bool) -> object:
    """*raw* with its values; what becomes a whole number is one, unless the key wants *text*."""
    made = fill(raw, values, text=text)
    composed = not text and isinstance(made, str) and isinstance(raw, str) and "{" in raw and lone(raw) is None
    return int(made) if composed and isinstance(made, str) and _WHOLE.fullmatch(made) else made


def _whole(raw: object, values: Values) -> object:
    """*raw* as if the value of a lone placeholder had been written there."""
    name = lone(raw) if isinstance(raw, str) else None
    return raw if name is None else as_written(values[name])


def _told(said: Table) -> dict[str, str]:
    """Variables by which scripts are told of [distributed]."""
    return {f"GPUDECK_DIST_{key.upper()}": _as_variable(value) for key, value in said.items()}


def _as_variable(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else as_text(value)


def _below(cwd: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Absolute paths; relative ones are in *cwd*."""
    return tuple(
        [path if path[0] == "/" else os.path.join(cwd, os.path.expanduser(path).removeprefix("./")) for path in paths]
    )


def _clash(template: str, names: Sequence[str], grid: Grid) -> str:
    """What to say when two tasks of one entry have the same name."""
    name, count = Counter(names).most_common(1)[0]
    used = set(names_in(template))
    missing = [axis[0] for axis in grid.axes if not used.intersection(axis)]
    if not missing:
        return f"{shown(name)} is made by {count} combinations: their values are the same, or run into each other"
    lacking = ", ".join(f"{{{key}}}" for key in missing)
    proposal = "-".join([template, *(f"{{{key}}}" for key in missing)])
    return f'has no {lacking}, so {count} tasks would be {shown(name)}: write name = "{proposal}"'
