"""What the keys of one entry mean, for all of its tasks or in one of them.

A key without placeholders of the matrix is read once, for all. A key that is wrong has its default from there on, so
that all else of the file is checked as if it were right; the file is refused in the end.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar, cast

from ..core.spec import IDLE_BELOW, Barrier, DeckSettings, Metric, Policy, Prune, Watch
from . import kinds
from .check import Checker, check_name
from .command import Python, digest_files, filled_command, ignoring, named_python, read_env_file
from .fit import Options, gpus_in
from .kinds import read_table, record
from .layers import Layers, RawEntry, expanded_with, set_value
from .matrix import Grid, grid
from .options import Box
from .placeholders import (
    BUILT_IN,
    RUNTIME,
    Scope,
    Values,
    as_written,
    fill,
    fill_command,
    fill_text,
    lone,
    marker,
    names_in,
)
from .problems import BadValueError, did_you_mean, inside
from .schema import DISTRIBUTED, IGNORED_VARIABLES, LADDERS, OF_ALL, RUNG, SLURM, TASK
from .settings import CardProfile
from .values import as_text, compact_json, is_list, shown

T = TypeVar("T", bound=Hashable)
Table = Mapping[str, object]

_ALONE = frozenset({"matrix", "shards", "nodes", "fingerprint_ignore"})
"""Keys that are the same for all tasks of an entry."""
EXECUTED = ("command", "env", "distributed", "resume_command")
"""What the rungs of on_oom and on_timeout and the profiles of cards change."""
_FORMS = {"metrics": "metrics.loss = { regex = 'loss: (\\S+)', best = \"min\" }"}
"""How tables are written that people take for lists."""
_GIVEN = (*EXECUTED, "resume_when", "outputs", "metrics", "progress")
"""In which values stand that a task is given in the place of the file's: which task it is, when its turn comes and what
it needs of the box stays."""
_STAYING = frozenset({"command", "env", "resume_command", "slurm", *LADDERS})
"""Keys in which what is known only at the start stays."""
_WHOLE = re.compile(r"-?\d+")
_SIMPLE = (str, int, bool, float)
_IN_NAME: Mapping[str, str] = dict.fromkeys(("task", "shard", "shards", *RUNTIME), "may not stand in name")
_IN_NEEDS: Mapping[str, str] = dict.fromkeys(("attempt", "gpu_ids", "shard"), "may not stand in needs and after")
_NO_SHARDS: Mapping[str, str] = dict.fromkeys(("shard", "shards"), "means something only in a task with shards")
_MOVES = "differs between the tasks of the entry, so it may not stand here"


@dataclass
class Context:
    """The file around its entries, and what they leave for the checks of the whole."""

    checker: Checker
    layers: Layers
    settings: DeckSettings
    environ: Mapping[str, str]
    box: Box
    python: Python
    profiles: tuple[CardProfile, ...]
    """[[gpu_profile]], the largest cards first."""
    placeholders: set[str]
    """Names that [vars] or the matrix of some entry has."""
    entries: dict[int, RawEntry] = field(default_factory=dict[int, RawEntry])
    """By line."""
    retried: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """By task, values of variables in the place of the file's, as typed."""
    unfit: dict[str, str] = field(default_factory=dict[str, str])
    """By task, why it goes without these."""
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
    _shared: dict[Hashable, object] = field(default_factory=dict[Hashable, object])

    def __post_init__(self) -> None:
        self.constants = {**self.layers.vars, "deck": self.settings.name}
        self.barrier = cast("Barrier", self.layers.deck.get("round_barrier", "succeeded"))
        self.on_slurm = self.settings.backend == "slurm"
        self.place: Callable[[object, object], tuple[str, Python]] = cache(self._place)
        self.digest = cache(digest_files)

    def share(self, value: T) -> T:
        """An equal value that is kept already, else this one."""
        return cast("T", self._shared.setdefault((value.__class__, value), value))

    def _place(self, cwd: object, python: object) -> tuple[str, Python]:
        """Where a task runs, and with which Python. Raises BadValueError about the latter."""
        folder = self.checker.source.folder
        path = os.path.join(folder, os.path.expanduser(cast("str", cwd))) if cwd else folder
        path = os.path.normpath(path) if cwd and ".." not in path else path
        return path, self.python if python is None else named_python(cast("str", python), folder, self.environ)


def _read_key(key: str, value: object) -> object:
    """What a task's key means by *value*. Raises BadValueError."""
    return _read_simple(key, value) if value.__class__ in _SIMPLE else TASK[key].kind.read(value)


@lru_cache(maxsize=65536, typed=True)
def _read_simple(key: str, value: object) -> object:
    return TASK[key].kind.read(value)


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


class Row:
    """What placeholders stand for in one task."""

    def __init__(self, cells: Mapping[str, object]) -> None:
        self.cells = cells
        self._values: dict[int, dict[str, object]] = {}

    def of(self, scope: Scope) -> dict[str, object]:
        found = self._values.get(id(scope))
        if found is None:
            found = self._values[id(scope)] = {**scope.known, **self.cells}
        return found


class Change(NamedTuple):
    """What a rung, or a [[gpu_profile]], changes."""

    vars: Mapping[str, object]
    env: Mapping[str, object]
    asks: Mapping[str, object] = {}
    """Other keys of the task, read."""


class EntryKeys:
    """The keys of one entry."""

    def __init__(self, entry: RawEntry, context: Context) -> None:
        """What is wrong with the keys is among the problems. Raises SkipError where most are not where they belong."""
        self.entry = entry
        self.context = context
        self.fixed: dict[str, object] = {}
        """Keys whose values all tasks share, read."""
        self.moving: list[str] = []
        """Those that differ between tasks; not the name."""
        self._raw: dict[str, object] = {}
        self._expanded: dict[str, Mapping[str, object]] = {}
        entry.check_keys()
        constants = {**context.constants, "nodes": 1}
        first = Scope(constants, context.environ)
        constants["nodes"] = self.fixed["nodes"] = self._alone("nodes", first, 1)
        self.grid = Grid()
        if "matrix" in entry.values:
            with entry.noting("matrix"):
                self.grid = grid(entry.values["matrix"], first)
        self._columns = frozenset(self.grid.keys)
        first.refused = dict.fromkeys(self._columns, _MOVES)
        self.shards = self._number_of_shards(first)
        self.ignores = ignoring(cast("tuple[str, ...]", self._alone("fingerprint_ignore", first, IGNORED_VARIABLES)))
        self._scopes = self._scopes_with(constants)
        self._read_fixed()

    def _alone(self, key: str, scope: Scope, default: object) -> object:
        """A key that must be the same for all tasks of the entry, read."""
        if key in self.entry.values:
            with self.entry.noting(key):
                raw = scope.checked(self.entry.values[key])
                return _read_key(key, _typed(raw, scope.known, text=TASK[key].kind.textual))
        return default

    def _number_of_shards(self, scope: Scope) -> int | None:
        number = self._alone("shards", scope, None)
        if "shards" in self.entry.wrong:
            return 1
        if number != "gpus":
            return cast("int | None", number)
        name, context = str(self.entry.values.get("name", "")), self.context
        if name not in context.box.fixed_shards and context.box.gpu_count is None:
            return 1
        count = context.box.fixed_shards.get(name) or max(1, context.box.gpu_count or 1)
        context.resolved_shards[name] = count
        return count

    def _scopes_with(self, constants: dict[str, object]) -> _Scopes:
        grid = self.grid
        paired = {axis: f"is an axis of tables: use their keys ({keys})" for axis, keys in grid.paired.items()}
        refused = {**paired, **({} if self.shards else _NO_SHARDS)}
        columns = self._columns.union(["task"], ["shard", "shards"] if self.shards else [])
        in_work = {**constants, **{name: marker(name) for name in RUNTIME}}
        elsewhere = {**constants, "log_dir": self.context.settings.log_dir}
        environ, partial = self.context.environ, grid.partial
        return _Scopes(
            Scope(dict(constants), environ, self._columns, partial, {**paired, **_IN_NAME}),
            Scope(dict(elsewhere), environ, columns - {"shard"}, partial, {**refused, **_IN_NEEDS}),
            Scope(in_work, environ, columns, partial, refused, self.ignores),
            Scope(elsewhere, environ, columns, partial, refused),
        )

    def _read_fixed(self) -> None:
        """Check the placeholders of all keys, and read those that all tasks share."""
        entry, row = self.entry, Row({})
        for key, value in entry.values.items():
            if key not in TASK or key in _ALONE:
                continue
            if "matrix" in entry.wrong and (key in LADDERS or names_in(value)):
                entry.wrong.add(key)
                continue
            with entry.noting(key):
                said = TASK[key].kind.read(value) if key == "name" else value
                self._raw[key] = self._scopes.of(key).checked(said)
        self._likely = self._known_texts()
        for key, raw in self._raw.items():
            if not self._scopes.of(key).columns.isdisjoint(names_in(raw)):
                self.moving += [key] if key != "name" else []
                continue
            with entry.noting(key):
                self.fixed[key] = self.read(key, row)
        self.cards = [card for profile in self.context.profiles if (card := self._on_card(profile))]
        self.check_together(self.fixed)
        self._check_own()

    def _on_card(self, profile: CardProfile) -> CardProfile | None:
        """What a profile changes of this entry, as far as it has such variables."""
        known = (*self._scopes.work.columns, *self._scopes.name.known)
        changes = {name: value for name, value in profile.vars.items() if name in known}
        self.context.placeholders |= self._columns
        key = "vars"
        try:
            self.with_vars(changes)
            key = "env"
            env = cast("Mapping[str, str | None]", self._scopes.work.checked(profile.env))
            return replace(profile, vars=changes, env=env)
        except BadValueError as error:
            self.context.checker.note(error, ("gpu_profile", profile.place, key))
            return None

    def _check_own(self) -> None:
        own, watch = self.entry.own, self.fixed.get("watch")
        if "resume_when" in own and "resume_command" not in self.entry.values:
            self.entry.note(BadValueError("says nothing without resume_command"), "resume_when")
        if (
            "watch" in own
            and isinstance(watch, Watch)
            and watch == Watch(action=watch.action, idle_below=watch.idle_below)
        ):
            self.entry.note(BadValueError("looks for nothing: say silent, idle_gpu, log_size or pattern"), "watch")
        elif (
            "watch" in own and isinstance(watch, Watch) and watch.idle_gpu_s is None and watch.idle_below != IDLE_BELOW
        ):
            self.entry.note(BadValueError("idle_below says nothing without idle_gpu"), "watch")

    def check_together(self, said: Table, where: str = "") -> None:
        """Note keys that contradict each other, as far as they are known and right."""
        unsettled = self.entry.wrong if where else self.entry.wrong.union(self.moving)
        for key, words, others in _contradictions(said, on_slurm=self.context.on_slurm):
            if unsettled.isdisjoint((key, *others)):
                self.entry.note(BadValueError(words), key, where=where)

    def read(self, key: str, row: Row) -> object:
        """What a key means in one task. Raises BadValueError."""
        raw, values = self._raw[key], row.of(self._scopes.of(key))
        match key:
            case "name":
                name = fill_text(cast("str", raw), values)
                check_name(name)
                return name
            case "env_file":
                path = os.path.expanduser(cast("str", _read_key(key, fill(raw, values, text=True))))
                return read_env_file(os.path.join(self.context.checker.source.folder, path))
            case "command" | "resume_command":
                return filled_command(raw, values, self._likely)
            case "env":
                return kinds.env(fill(self._table(key, values), values, text=True))
            case "distributed":
                return _told(read_table(fill(self._table(key, values), values), DISTRIBUTED))
            case "slurm":
                return tuple(read_table(self._asked(self._table(key, values), values), SLURM).items())
            case "prune":
                return TASK[key].kind.read(fill(self._table(key, values), values))
            case "metrics":
                return TASK[key].kind.read(fill(self._table(key, values), values, text=True))
            case "watch":
                said = self._table(key, values).items()
                return TASK[key].kind.read(
                    {name: fill(value, values, text=name not in _NUMBERS_OF_WATCH) for name, value in said}
                )
            case "on_oom" | "on_timeout":
                return self._ladder(raw, values)
            case _:
                return _read_key(key, _typed(raw, values, text=TASK[key].kind.textual))

    def _table(self, key: str, values: Values) -> Mapping[str, object]:
        """A merged key as one table, its values as written."""
        raw = self._raw[key]
        layers = raw if key in self.entry.apart and is_list(raw) else [raw]
        tables = [kinds.table(_whole(layer, values), _FORMS.get(key, "")) for layer in layers]
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
        return {
            **secret,
            "python": context.python.path,
            "log_dir": context.settings.log_dir,
            "run_dir": context.settings.log_dir,
        }

    def _ladder(self, raw: object, values: Values) -> tuple[Change, ...]:
        """Rungs; each changes the task as written, not the rung before."""
        ladder = _whole(raw, values)
        ladder = [_whole(rung, values) for rung in ladder] if is_list(ladder) else ladder
        rungs: list[Change] = []
        for number, rung in enumerate(kinds.tables(ladder), start=1):
            try:
                said = read_table({key: _of_rung(key, item, values) for key, item in rung.items()}, RUNG)
                change = Change(cast("Table", said.pop("vars", {})), cast("Table", said.pop("env", {})), said)
                if "slurm" in said:
                    with inside("slurm"):
                        said["slurm"] = tuple(
                            read_table(self._asked(cast("Table", said["slurm"]), values), SLURM).items()
                        )
                self.with_vars(change.vars)
            except BadValueError as error:
                words = f"{'.'.join(error.inside)} {error.words}".strip()
                raise BadValueError(f"rung {number}: {words}") from None
            rungs.append(change)
        return tuple(rungs)

    @property
    def _variables(self) -> list[str]:
        """Of the matrix and of [vars]."""
        return [*self._scopes.work.columns, *self._scopes.name.known]

    def with_vars(self, changes: Table) -> Table:
        """[vars] with *changes*, which may change keys of the matrix, too. Raises BadValueError."""
        known = self._variables
        for name in changes:
            if name not in known:
                own = ", ".join(sorted({*known}.difference(BUILT_IN)))
                hint = did_you_mean(name, known) or (f"there are {own}" if own else "")
                words = f"changes {name}, which is in neither matrix nor [vars]"
                raise BadValueError(f"{words}: {hint}" if hint else words)
        text = compact_json(changes)
        if text not in self._expanded:
            layers = self.context.layers
            self._expanded[text] = expanded_with(changes, layers.vars_as_written, layers.vars, self.context.environ)
        return self._expanded[text]

    def given(self, texts: Mapping[str, str], row: Row) -> Table:
        """Values in the place of those that a task has, as typed, without those that are the same. Raises
        BadValueError."""
        values = {name: set_value(text) for name, text in texts.items()}
        for name in values:
            if name in BUILT_IN:
                raise BadValueError(f"changes {name}: {{{name}}} means something already")
            if name.isupper() and name not in self._variables:
                hint = f"`--env {name}=…` gives a variable of the environment"
                raise BadValueError(f"changes {name}, which is in neither matrix nor [vars]: {hint}")
        self.with_vars(values)
        now = row.of(self._scopes.work)
        return {name: value for name, value in values.items() if as_text(value) != as_text(now.get(name))}

    def under(self, given: Table, said: Table, row: Row) -> Table:
        """What a task is with other values. Raises BadValueError."""
        row = Row({**row.cells, **self.with_vars(given)})
        return {**said, **{key: self.read(key, row) for key in _GIVEN if key in said}}

    def text_in(self, change: Mapping[str, object], row: Row) -> Mapping[str, str | None]:
        """Variables of a rung or a [[gpu_profile]] with their values."""
        return cast("Mapping[str, str | None]", fill(change, row.of(self._scopes.work), text=True))

    def names(self) -> list[str]:
        """What the tasks are called, one for each combination."""
        template, known = cast("str", self._raw["name"]), self._scopes.name.known
        return [fill_text(template, {**known, **row}) for row in self.grid.rows]

    def clash(self, names: Sequence[str]) -> str:
        """What to say where two of *names* are the same."""
        template = cast("str", self._raw["name"])
        name, count = Counter(names).most_common(1)[0]
        used = set(names_in(template))
        missing = [axis[0] for axis in self.grid.axes if not used.intersection(axis)]
        if not missing:
            return f"{shown(name)} is made by {count} combinations: their values are the same, or run into each other"
        lacking = ", ".join(f"{{{key}}}" for key in missing)
        proposal = "-".join([template, *(f"{{{key}}}" for key in missing)])
        return f'has no {lacking}, so {count} tasks would be {shown(name)}: write name = "{proposal}"'


_Contradiction = tuple[str, str, tuple[str, ...]]
"""A key that cannot be what it is beside others, what to say of it, the others."""


def _contradictions(said: Table, *, on_slurm: bool) -> Iterator[_Contradiction]:
    own = list(_contradict(said, on_slurm=on_slurm))
    yield from own
    if said.get("on_timeout") and said.get("timeout") is None and not on_slurm:
        yield "on_timeout", "says nothing without a timeout", ("timeout",)
    for ladder in LADDERS:
        for number, rung in enumerate(cast("Sequence[Change]", said.get(ladder, ())), start=1):
            found = list(_contradict({**said, **rung.asks}, on_slurm=on_slurm)) if rung.asks else []
            found += _wrong_gpus(said, rung.asks, on_slurm=on_slurm) if "gpus" in rung.asks else []
            yield from (
                (ladder, f"rung {number}: {one[0]} {one[1]}", (one[0], *one[2])) for one in found if one not in own
            )


def _wrong_gpus(said: Table, asks: Table, *, on_slurm: bool) -> Iterator[_Contradiction]:
    """Of a rung that changes how many GPUs the task gets."""
    if (own := said.get("gpus", 1)) in (0, "all"):
        yield "gpus", f"= {asks['gpus']}, of a task with gpus = {shown(own)}", ()
    own_options, options = (dict(cast("Options", table.get("slurm", ()))) for table in (said, asks))
    gres = {**own_options, **options}.get("gres")
    if on_slurm and (each := gpus_in(gres)) and each != asks["gpus"]:
        yield "gpus", f"= {asks['gpus']}, but slurm.gres asks for {each}: write {{num_gpus}} there", ("slurm",)


def _contradict(said: Table, *, on_slurm: bool) -> Iterator[_Contradiction]:
    ids, gpus = cast("tuple[object, ...]", said.get("gpu_ids", ())), said.get("gpus", 1)
    if ids and isinstance(gpus, int) and gpus > len(ids):
        yield "gpus", f"= {gpus}, but gpu_ids names only {len(ids)}", ("gpu_ids",)
    if said.get("warn_signal") is not None:
        yield from _wrong_warning(record(Policy, said), said, on_slurm=on_slurm)
    prune = cast("Prune | None", said.get("prune"))
    if prune is not None:
        for metric in cast("tuple[Metric, ...]", said.get("metrics", ())):
            if metric.name == prune.name and metric.best not in ("last", prune.metric.rpartition(":")[2]):
                words = f'has metric = "{prune.metric}", but metrics.{metric.name} has best = "{metric.best}"'
                yield "prune", words, ("metrics",)
    if said.get("mounts") and not said.get("image"):
        yield "mounts", "says nothing without image", ("image",)
    if "nproc" in said and said.get("launch", "command") == "command":
        yield "nproc", 'says nothing with launch = "command"', ("launch",)


def _wrong_warning(policy: Policy, said: Table, *, on_slurm: bool) -> Iterator[_Contradiction]:
    if not (on_slurm or policy.timeout_s is not None or said.get("resume_when")):  # what makes way is warned, too
        yield "warn_signal", "says nothing without a timeout", ("timeout", "resume_when")
    elif policy.timeout_s is not None and policy.warn_before_s >= policy.timeout_s:
        shown = TASK["warn_before"].default.strip('"')
        words = f"comes {shown} before the end (warn_before), which is not shorter than the timeout"
        others = ("timeout", "warn_signal", "warn_before")
        yield ("warn_before", "is not shorter than the timeout", others) if "warn_before" in said else (
            "warn_signal", words, others
        )  # fmt: skip


def _of_rung(key: str, raw: object, values: Values) -> object:
    """A value of a rung; tables stay as written."""
    plain = key in RUNG and key in TASK and key not in _STAYING
    return _typed(raw, values, text=TASK[key].kind.textual) if plain else _whole(raw, values)


_NUMBERS_OF_WATCH = frozenset({"idle_below"})


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
