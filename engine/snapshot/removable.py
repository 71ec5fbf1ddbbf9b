"""Snapshots that `gpudeck clean` may remove, while an engine may be using and making others."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from . import index as books
from .remove import MANIFEST, discard, is_whole, written_in


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


@dataclass(frozen=True, slots=True)
class Planned:
    """What would go, and the book that says so."""

    book: books.Book
    snapshots: tuple[Removable, ...]


def plan(state: str, unfinished: Collection[str], limit_wall: float) -> Planned:
    """Those made before *limit_wall* (seconds since the epoch). *state*: the deck's state folder. Raises OSError."""
    book, home = books.load(state), books.home_of(state)
    found: list[Removable] = []
    for snapshot in book.snapshots.values():
        folder = os.path.join(home, snapshot.id)
        if snapshot.id in book.needed(unfinished) or not is_whole(folder):
            continue
        if os.stat(os.path.join(folder, MANIFEST)).st_mtime <= limit_wall:
            files, disk_bytes = _size(folder)
            written = tuple(written_in(folder))
            found.append(Removable(snapshot.id, snapshot.top, snapshot.path, files, disk_bytes, written))
    return Planned(book, tuple(found))


def remove(state: str, planned: Planned, failed: Callable[[str], None]) -> tuple[int, int]:
    """Remove what was planned. Where the book has changed since, an engine may have taken one up: then nothing is
    removed. Returns how many files are gone and what that freed in bytes."""
    files = freed = 0
    with books.alone(state):
        book, home = books.load(state), books.home_of(state)
        if book != planned.book:
            failed(f"{home}: an engine has just used it; ask again")
            return 0, 0
        for one in planned.snapshots:
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
