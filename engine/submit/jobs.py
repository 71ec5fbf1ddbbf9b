"""The jobs of a deck, and submit.sh, which hands them to sbatch: tasks that ask for the same and wait for the same are
an array, where `array = true`. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.resources import files

from ..adapters.slurm.script import array_name, array_script, asks, job_name
from ..adapters.slurm.states import FAILED
from ..core.selector import is_glob
from ..core.spec import TaskSpec, matching
from ..ports import JobOrder, StartOrder

LOCK = ".lock"
"""The file beside submit.sh that is held by who submits, or writes jobs anew."""
_MOST = 1000
"""Elements of one array: Slurm's own limit, unless a site says otherwise."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A task as a job, or as an element of an array."""

    spec: TaskSpec
    order: StartOrder
    stem: str
    """What its files beside the logs begin with."""
    script: str
    """The text."""
    record: bytes
    """Its attempt-N.json until it runs."""
    files: str
    """What its script and its record are called in the folder of submit.sh, without .sh and .json."""
    waits: Waits

    @property
    def job(self) -> JobOrder:
        """Raises ValueError where it was not made for a cluster."""
        if self.order.job is None:
            raise ValueError(f"{self.spec.name}: an order without a job")
        return self.order.job

    @property
    def token(self) -> str:
        return self.order.token


@dataclass(frozen=True, slots=True)
class Unit:
    """What one sbatch submits: a task, or several as an array."""

    name: str
    """The job's name, which no other job has."""
    script: str
    """Relative to submit.sh."""
    pieces: Sequence[Piece]
    """All of them wait for the same."""
    batch: str = ""
    """Of an array; empty: one job."""
    text: str = ""
    """Of an array's script."""
    at_once: int | None = None
    """So many of an array run together at most: the max_parallel of their entry."""

    @property
    def waits(self) -> Waits:
        return self.pieces[0].waits


def units_of(pieces: Sequence[Piece], batches: Sequence[str], *, folder: str) -> list[Unit]:
    """In file order of the first task of each. *batches*: a name for each array there may be, at least as many as
    pieces; *folder*: of their scripts."""
    names = iter(batches)
    return [
        _array(group, next(names), folder, _at_once(group, pieces)) if len(group) > 1 else _single(group[0])
        for group in _groups(pieces)
    ]


def _groups(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """One limit holds for all of an array, so a task that is limited shares none with those of another entry."""
    found: dict[object, list[Piece]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        if piece.job.options.get("array") is not True:
            found[number].append(piece)
            continue
        entry = piece.spec.entry if piece.spec.resources.max_parallel is not None else ""
        key = (asks(piece.job), piece.waits, entry)
        found[key].append(piece)
    return [group[at : at + _MOST] for group in found.values() for at in range(0, len(group), _MOST)]


def _at_once(group: Sequence[Piece], pieces: Sequence[Piece]) -> int | None:
    """How many of an array may run together; None: as many as there are, or more of the entry is in other jobs."""
    limit, entry = group[0].spec.resources.max_parallel, group[0].spec.entry
    return limit if len(group) == sum(piece.spec.entry == entry for piece in pieces) else None


def _array(group: Sequence[Piece], batch: str, folder: str, at_once: int | None) -> Unit:
    orders = [piece.order for piece in group]
    name = array_name(orders, batch)
    return Unit(name, f"{folder}/{name}.sh", group, batch, array_script(orders, batch, at_once=at_once), at_once)


def _single(piece: Piece) -> Unit:
    return Unit(job_name(piece.spec.name, piece.token), f"{piece.files}.sh", [piece])


def submit_script(deck: str, control: str, units: Sequence[Unit], in_flight: Mapping[str, str], *, version: str) -> str:
    """The whole text. *control*: absolute path of the folder in which jobs tell how they ended; *in_flight*: by task
    the token of a job that an earlier submit.sh has handed over, and that others may wait for."""
    lines = [f"known {shlex.quote(task)} {token}" for task, token in in_flight.items()]
    for unit in units:
        lines += ["", _words("job", unit.name, unit.script, unit.batch)]
        lines += [_task(piece) for piece in unit.pieces]
        lines += [_words("  after_ok", *unit.waits.ok)] * bool(unit.waits.ok)
        lines += [_words("  after_end", *unit.waits.ended)] * bool(unit.waits.ended)
        lines.append("  submit")
    failed = "|".join(sorted(FAILED))
    head = _HEAD.format(deck=" ".join(deck.split()), version=version, control=shlex.quote(control), failed=failed)
    return "\n".join([head, _VERBS, *lines, "", "tell", ""])


def _task(piece: Piece) -> str:
    err = () if piece.order.stderr == piece.order.stdout else ("err",)
    return _words("  task", piece.spec.name, piece.token, piece.files, piece.stem, *err)


def _words(verb: str, *words: str) -> str:
    return " ".join([verb, *(shlex.quote(word) for word in words)])


_HEAD = """\
#!/bin/bash
# The deck {deck} as Slurm jobs, written by gpudeck {version}. `bash submit.sh` submits each of them once: what Slurm
# has taken is kept beside the logs, so after an interruption or a refusal it may just be run again.
control={control}
failed='{failed}'
"""
_VERBS = (files(__package__ or "") / "submit.sh").read_text(encoding="utf-8")
"""known, job, task, after_ok, after_end, submit, tell."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Names of tasks, in file order."""

    ok: tuple[str, ...] = ()
    """Those that must have succeeded."""
    ended: tuple[str, ...] = ()
    """Those that must have ended, however; none that is in `ok`."""


def waits_of(tasks: Sequence[TaskSpec], *, done: Set[str]) -> dict[str, Waits]:
    """By task, what it waits for among *tasks*: all that are selected. Those in *done* have succeeded: nobody waits for
    them. What is needed and not among *tasks* is passed over (see `missing`)."""
    place = {spec.name: number for number, spec in enumerate(tasks)}
    found = _Patterns(place)
    rounds = _Rounds(tasks, done)
    waits: dict[str, Waits] = {}
    for spec in tasks:
        ok, ended = rounds.before(spec)
        ok |= {name for pattern in spec.needs for name in found.members(pattern, spec.name)}
        ended |= {name for pattern in spec.after for name in found.members(pattern, spec.name)}
        ok -= done
        waits[spec.name] = Waits(*(tuple(sorted(names, key=place.__getitem__)) for names in (ok, ended - ok - done)))
    return waits


def missing(tasks: Sequence[TaskSpec], all_tasks: Sequence[TaskSpec], *, done: Set[str]) -> dict[str, list[str]]:
    """By task, what it needs that is neither among *tasks*, those that are selected, nor done."""
    chosen = {spec.name for spec in tasks}
    left_out = [spec.name for spec in all_tasks if spec.name not in chosen and spec.name not in done]
    found = _Patterns(left_out)
    by_task = {spec.name: [name for pattern in spec.needs for name in found.members(pattern, "")] for spec in tasks}
    return {task: names for task, names in by_task.items() if names}


class _Patterns:
    """Tasks by name or glob; each pattern is looked up once."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._found: dict[str, list[str]] = {}

    def members(self, pattern: str, own: str) -> list[str]:
        """A glob never means *own*, the task that has it."""
        if not is_glob(pattern):
            return [pattern] if pattern in self._names else []
        if pattern not in self._found:
            self._found[pattern] = matching(pattern, self._names)
        return [name for name in self._found[pattern] if name != own]


class _Rounds:
    """The rounds of each group, without what is done."""

    def __init__(self, tasks: Sequence[TaskSpec], done: Set[str]) -> None:
        self._groups: dict[str, dict[int, list[TaskSpec]]] = defaultdict(lambda: defaultdict(list))
        for spec in tasks:
            if spec.name not in done:
                self._groups[spec.group][spec.round].append(spec)

    def before(self, spec: TaskSpec) -> tuple[set[str], set[str]]:
        """The tasks of earlier rounds that must have succeeded, and that must have ended.

        Of rounds that had to succeed the newest is enough: none of its tasks has begun before those of the rounds
        before it succeeded. One that ended may have been taken off the queue, so those need all of them.
        """
        rounds = self._groups[spec.group]
        earlier: set[str] = set()
        for number in sorted((number for number in rounds if number < spec.round), reverse=True):
            earlier |= {task.name for task in rounds[number]}
            if spec.barrier == "succeeded" and all(task.barrier == "succeeded" for task in rounds[number]):
                break
        return (earlier, set()) if spec.barrier == "succeeded" else (set(), earlier)
