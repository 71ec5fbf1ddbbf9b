"""Which snapshot each task runs from, in the state folder: an engine that goes on with a run uses the same ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from ..atomic import write_atomic
from ..core.events import Fact, RunStarted, TaskRetried
from .copy import Snapshot
from .remove import MANIFEST, discard, is_whole, written_in

SHARED = ".snapshots"
"""Below the log folder: copies of decks whose tasks run on other machines."""
_FOLDER = "snapshots"
_LINK = "snapshots.shared"
_NAME = "snapshots.json"


class Epoch(msgspec.Struct, frozen=True, array_like=True):
    """What makes a task take the code anew. Automatic retries leave it as it is."""

    run: int
    retried: float
    """When it was asked for by hand in this run, CLOCK_BOOTTIME; 0: it was not."""
    fingerprint: str
    """What it is according to the task file."""

    def at_once_with(self, other: Epoch) -> bool:
        """Whether they differ at most by what the task file says."""
        return (self.run, self.retried) == (other.run, other.retried)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A task's snapshot."""

    id: str
    epoch: Epoch
    since: float
    """CLOCK_BOOTTIME."""
    before: str = ""
    """The one that it had before, where an attempt still ran from that."""


class Book(msgspec.Struct):
    """What is known of a deck's snapshots."""

    snapshots: dict[str, Snapshot] = {}
    tasks: dict[str, Entry] = {}

    def needed(self, unfinished: Collection[str]) -> set[str]:
        """Ids of what these tasks run from, or may still run from."""
        entries = [self.tasks[task] for task in unfinished if task in self.tasks]
        return {entry.id for entry in entries} | {entry.before for entry in entries}


@dataclass(slots=True)
class Epochs:
    """Folded from facts, live and at a restore."""

    run: int = 0
    began: float = 0.0
    """When the run did, CLOCK_BOOTTIME."""
    retried: dict[str, float] = field(default_factory=dict[str, float])

    def hear(self, facts: Iterable[Fact]) -> tuple[bool, Sequence[str]]:
        """Returns whether a run began, and which tasks were asked for by hand."""
        began, asked = False, list[str]()
        for fact in facts:
            if isinstance(fact, RunStarted):
                self.run, self.began, began = fact.run, fact.at, True
                self.retried.clear()
            elif isinstance(fact, TaskRetried):
                self.retried[fact.task] = fact.at
                asked.append(fact.task)
        return began, asked

    def of(self, task: str, fingerprint: str) -> Epoch:
        return Epoch(self.run, self.retried.get(task, 0.0), fingerprint)

    def since(self, task: str) -> float:
        """When the task was taken up, or asked for by hand, CLOCK_BOOTTIME."""
        return self.retried.get(task, self.began)


def home_of(state: str) -> str:
    """Where a deck's snapshots lie. *state*: its state folder."""
    link = os.path.join(state, _LINK)
    return os.path.realpath(link) if os.path.islink(link) else os.path.join(state, _FOLDER)


def share(state: str, log_dir: str) -> None:
    """From now on they lie beside the logs: a state folder may be on a disk that the nodes of a cluster do not see.

    In a folder of this state's own, for another may have copies there that jobs run. Raises OSError.
    """
    link = os.path.join(state, _LINK)
    if not os.path.islink(link):
        folder = os.path.join(os.path.realpath(log_dir), SHARED, os.urandom(6).hex())
        os.makedirs(folder, mode=0o700)
        os.symlink(folder, link)


def load(state: str) -> Book:
    """Nothing where it is missing or cannot be read: then tasks take the code as it is."""
    try:
        with open(os.path.join(state, _NAME), "rb") as file:
            return msgspec.json.decode(file.read(), type=Book)
    except (OSError, msgspec.DecodeError):
        return Book()


def save(state: str, book: Book) -> None:
    """Durably. Raises OSError."""
    write_atomic(os.path.join(state, _NAME), msgspec.json.encode(book), mode=0o600)


@contextlib.contextmanager
def alone(state: str) -> Generator[None]:
    """Nobody else makes or removes snapshots of this deck. Raises OSError."""
    home = home_of(state)
    os.makedirs(home, mode=0o700, exist_ok=True)
    with open(os.path.join(home, "lock"), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class Removable:
    """A snapshot that no unfinished task needs."""

    id: str
    top: str
    """The repository's."""
    path: str
    files: int
    disk_bytes: int
    written: tuple[str, ...]
    """What tasks made or changed in it, and what is nowhere else."""


def plan_removal(state: str, unfinished: Collection[str], limit_wall: float) -> tuple[Book, list[Removable]]:
    """Those made before *limit_wall* (seconds since the epoch), and the book that says so. *state*: the deck's state
    folder. Raises OSError."""
    book, home = load(state), home_of(state)
    found: list[Removable] = []
    for snapshot in book.snapshots.values():
        folder = os.path.join(home, snapshot.id)
        if snapshot.id in book.needed(unfinished) or not is_whole(folder):
            continue
        if os.stat(os.path.join(folder, MANIFEST)).st_mtime <= limit_wall:
            files, disk_bytes = _size(folder)
            written = tuple(written_in(folder))
            found.append(Removable(snapshot.id, snapshot.top, snapshot.path, files, disk_bytes, written))
    return book, found


def remove_copies(
    state: str, planned_by: Book, copies: Iterable[Removable], failed: Callable[[str], None]
) -> tuple[int, int]:
    """Remove what was planned. Where the book has changed since, an engine may have taken one up: then nothing is
    removed. Returns how many files are gone and what that freed in bytes."""
    files = freed = 0
    with alone(state):
        book, home = load(state), home_of(state)
        if book != planned_by:
            failed(f"{home}: an engine has just used it; ask again")
            return 0, 0
        for one in copies:
            try:
                discard(os.path.join(home, one.id), one.top)
            except OSError as error:
                failed(f"{one.path}: {error.strerror}")
                continue
            files, freed = files + one.files, freed + one.disk_bytes
    return files, freed


def _size(folder: str) -> tuple[int, int]:
    told = [os.lstat(os.path.join(here, name)) for here, _, names in os.walk(folder) for name in names]
    return len(told), sum(one.st_blocks * 512 for one in told)
