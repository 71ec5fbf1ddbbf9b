"""The jobs of a deck, and submit.sh, which hands them to sbatch: tasks that ask for the same and wait for the same are
an array, where `array = true`. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from ..adapters.slurm.script import array_name, array_script, asks, job_name
from ..adapters.slurm.states import FAILED
from ..core.spec import TaskSpec
from ..ports import JobOrder, StartOrder
from .waits import Waits

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
