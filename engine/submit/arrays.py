"""Tasks as jobs, and those that ask for the same and wait for the same as arrays, where `array = true`. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..adapters.slurm.arrays import array_name, array_script, asks
from ..adapters.slurm.script import job_name
from ..attempt.orders import Made
from ..core.spec import TaskSpec
from ..ports import JobOrder
from .shell import Member, Unit
from .waits import Waits

_MOST = 1000
"""Elements of one array: Slurm's own limit, unless a site says otherwise."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A task as a job."""

    spec: TaskSpec
    made: Made
    script: str
    """The text."""
    files: str
    """What its script and record are called beside submit.sh, without .sh and .json."""
    waits: Waits

    @property
    def job(self) -> JobOrder:
        """Raises ValueError where it was not made for a cluster."""
        if self.made.order.job is None:
            raise ValueError(f"{self.spec.name}: an order without a job")
        return self.made.order.job


@dataclass(frozen=True, slots=True)
class Arrayed:
    """What is submitted."""

    units: tuple[Unit, ...]
    """In file order of the first task of each."""
    scripts: dict[str, str]
    """Those of arrays, by name."""
    limited: frozenset[str]
    """Entries whose max_parallel an array holds."""


def arrayed(pieces: Sequence[Piece], batches: Sequence[str], *, folder: str) -> Arrayed:
    """*batches*: a name for each array there may be, at least as many as pieces; *folder*: of their scripts."""
    names = iter(batches)
    units: list[Unit] = []
    scripts: dict[str, str] = {}
    limited: set[str] = set()
    for group in _groups(pieces):
        if len(group) == 1:
            units.append(_alone(group[0]))
            continue
        batch, orders = next(names), [piece.made.order for piece in group]
        at_once = _at_once(group, pieces)
        limited |= {group[0].spec.entry} if at_once else set()
        name = array_name(orders, batch)
        path = f"{folder}/{name}.sh"
        scripts[path] = array_script(orders, batch, at_once=at_once)
        units.append(Unit(name, path, tuple(map(_member, group)), group[0].waits, batch))
    return Arrayed(tuple(units), scripts, frozenset(limited))


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


def _alone(piece: Piece) -> Unit:
    name = job_name(piece.spec.name, piece.made.order.token)
    return Unit(name, f"{piece.files}.sh", (_member(piece),), piece.waits)


def _member(piece: Piece) -> Member:
    order = piece.made.order
    merged = order.stderr == order.stdout
    return Member(piece.spec.name, order.token, piece.files, piece.made.paths.stem, merged=merged)
