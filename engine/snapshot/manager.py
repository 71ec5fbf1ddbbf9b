"""Makes and removes snapshots and keeps the book of them, a piece of work at a time, in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ..core.spec import TaskSpec
from ..errors import error_in_words
from ..text import plural
from . import index as books
from .copy import DRAFT, Snapshot, make
from .git import GitError, GitState, top_of
from .index import Entry, Epoch
from .remove import ASIDE, is_whole, put_aside, wipe, written_in
from .repository import Repository, beside_code, repositories

_NAMED = 3
_NO_SNAPSHOTS = (ASIDE, DRAFT)
"""How folders begin that are no snapshots."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A task that needs its code."""

    spec: TaskSpec
    epoch: Epoch
    now: float
    """CLOCK_BOOTTIME, like the others."""
    since: float
    """When its run began, or it was asked for by hand."""
    started: float | None
    """When the attempt was started that it has now."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task runs."""

    entry: Entry
    cwd: str
    """Its own, in the snapshot."""
    path: str
    """The snapshot's top."""
    git: GitState


class Clerk:
    """Of one open deck. Every method blocks."""

    def __init__(self, state: str, log_dir: str, note: Callable[[str, str], None], *, shared: bool = False) -> None:
        """*note* (text, level) is told what the user should know, in the caller's thread. *shared*: other machines have
        to see the copies."""
        self._shared = shared
        self._state = state
        self._log_dir = log_dir
        self._note = note
        self._book = books.load(state)

    def settle(self, asked: Sequence[Asked], specs: Sequence[TaskSpec]) -> Mapping[str, Place | str]:
        """Give each task its place: that of the book where it is of the same epoch, else one in a snapshot of now.
        *specs*: all tasks of the deck. By task; a text tells why there is none."""
        try:
            found = repositories(specs, self._log_dir)
            if self._shared:
                books.share(self._state, self._log_dir)
            with books.alone(self._state):
                return self._settle(asked, found)
        except (GitError, OSError) as error:
            return {one.spec.name: error_in_words(error) for one in asked}

    def _settle(self, asked: Sequence[Asked], found: Mapping[str, Repository]) -> Mapping[str, Place | str]:
        made: dict[str, Snapshot | str] = {}
        entries: dict[str, Entry | str] = {}
        tops = {cwd: top_of(cwd) for cwd in {one.spec.cwd for one in asked}}
        for one in asked:
            top = tops[one.spec.cwd]
            entry = self._book.tasks.get(one.spec.name)
            if top is None or top not in found:
                entries[one.spec.name] = f"{one.spec.cwd} is in no git repository any more, and snapshot is true"
            elif entry is not None and entry.epoch == one.epoch and self._there(entry.id):
                entries[one.spec.name] = entry
            else:
                if top not in made:
                    made[top] = self._made(found[top])
                entries[one.spec.name] = self._entered(one, made[top])
        if made:
            books.save(self._state, self._book)
        return {
            one.spec.name: told
            if isinstance(told, str)
            else place_in(self._book.snapshots[told.id], one.spec.cwd, told)
            for one in asked
            for told in (entries[one.spec.name],)
        }

    def _there(self, name: str) -> bool:
        return name in self._book.snapshots and is_whole(os.path.join(books.home_of(self._state), name))

    def _made(self, repository: Repository) -> Snapshot | str:
        known = set(self._book.snapshots)
        try:
            beside = beside_code(repository)
            if beside:
                return beside_words(repository.top, beside[0])
            state_root = os.path.dirname(self._state)
            home = books.home_of(self._state)
            snapshot = make(repository, home, state_root, lambda text: self._note(text, "warning"))
        except (GitError, OSError) as error:
            return error_in_words(error)
        self._book.snapshots[snapshot.id] = snapshot
        if snapshot.id not in known:
            changes = " with uncommitted changes" if snapshot.dirty else ""
            self._note(f"tasks run a copy of {snapshot.top}: commit {snapshot.commit[:8]}{changes}", "info")
        return snapshot

    def _entered(self, one: Asked, made: Snapshot | str) -> Entry | str:
        if isinstance(made, str):
            return made
        earlier = self._book.tasks.get(one.spec.name)
        edited = earlier is not None and earlier.epoch.at_once_with(one.epoch)
        since = one.now if edited else one.since
        runs_on = one.started is not None and one.started < since
        before = earlier.id if earlier is not None and runs_on else ""
        entry = self._book.tasks[one.spec.name] = Entry(made.id, one.epoch, since, before)
        return entry

    def earlier(self, task: str, cwd: str, at: float) -> Place | None:
        """Where an attempt that started at *at* (CLOCK_BOOTTIME) runs."""
        entry = self._book.tasks.get(task)
        wanted = "" if entry is None else entry.id if entry.since <= at else entry.before
        snapshot = self._book.snapshots.get(wanted)
        return None if entry is None or snapshot is None else place_in(snapshot, cwd, entry)

    def sweep(self, unfinished: Collection[str]) -> list[str]:
        """Take the snapshots away that none of these tasks needs, but those that hold what tasks wrote. Returns folders
        for `wipe`."""
        try:
            with books.alone(self._state):
                aside, kept = sweep(self._state, self._book, unfinished)
        except OSError as error:
            self._note(f"snapshots are not removed: {error_in_words(error)}", "warning")
            return []
        for path, files in kept.items():
            named = ", ".join(files[:_NAMED]) + (", …" if len(files) > _NAMED else "")
            self._note(
                f"{path} is kept: tasks wrote {plural(len(files), 'file')} there ({named}); move them, and name their "
                f"folder in outputs; gpudeck clean removes it",
                "warning",
            )
        return aside

    def wipe(self, folders: Sequence[str]) -> None:
        """Remove what `sweep` has put aside."""
        try:
            for folder in folders:
                wipe(folder)
        except OSError as error:
            self._note(f"snapshots are not removed: {error_in_words(error)}", "warning")


def sweep(state: str, book: books.Book, unfinished: Collection[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Put aside what these tasks do not need, and what was left half-made, and write the book. Returns folders that
    only wait to be removed; and, by folders that stay, what tasks wrote there. Raises OSError."""
    home, needed = books.home_of(state), book.needed(unfinished)
    aside, kept = list[str](), dict[str, list[str]]()
    for entry in list(os.scandir(home)):
        if not entry.is_dir(follow_symlinks=False) or entry.name in needed:
            continue
        known = book.snapshots.get(entry.name)
        whole = is_whole(entry.path)
        files = written_in(entry.path) if whole else []
        if files:
            kept[known.path if known is not None else entry.path] = files
        elif not whole and known is None and entry.name.startswith(_NO_SNAPSHOTS):
            aside.append(entry.path)
        else:
            aside.append(put_aside(entry.path, known.top if known is not None else ""))
            book.snapshots.pop(entry.name, None)
    book.tasks = {task: entry for task, entry in book.tasks.items() if task in unfinished}
    books.save(state, book)
    return aside, kept


def place_in(snapshot: Snapshot, cwd: str, entry: Entry) -> Place:
    here = os.path.normpath(os.path.join(snapshot.path, os.path.relpath(os.path.realpath(cwd), snapshot.top)))
    return Place(entry, here, snapshot.path, GitState(snapshot.commit, snapshot.dirty, snapshot.branch))


def beside_words(top: str, folder: str) -> str:
    """Why a snapshot cannot be made for tasks that write to *folder* of the repository, and what to do."""
    place = os.path.join(top, folder) if folder else top
    return (
        f"with snapshot = true no output may lie right in {place}, beside the code: give outputs a folder of their own "
        f"(results/model.pt), or make the folder that is meant"
    )
