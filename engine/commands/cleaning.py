"""Which logs of attempts may go, and what the state folder needs no more; and removing them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from dataclasses import dataclass, field

from ..core.events import AttemptEnded
from ..core.phases import FINAL
from ..logs.told import read_record
from ..offline.deck import Offline
from ..snapshot import removable
from ..snapshot.index import Book
from ..snapshot.removable import Planned
from .unneeded import Unneeded, running_logs, sweep, unneeded_in

_FILE = re.compile(r"attempt-([1-9]\d{0,8})\.(?:log|err|json|json~|gpu\.json~?|error\.json|rank\d{1,5}\.(?:log|err))")
_LINK = re.compile(r"latest\.(?:log|err)|gpu\d+\.log")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK_BYTES = 512
"""Of st_blocks, whatever the file system."""


@dataclass(slots=True)
class Left:
    """The files of one attempt that are ours."""

    task: str
    attempt: int
    files: dict[str, int] = field(default_factory=dict[str, int])
    """By name, how many bytes removing it frees."""
    newest_wall: float = 0.0
    """When one of them was last written."""

    @property
    def disk_bytes(self) -> int:
        return sum(self.files.values())


def attempts_in(log_dir: str, folder: str, task: str) -> tuple[dict[int, Left], int]:
    """By number, the attempts with files in a task's *folder*, an absolute path inside *log_dir*; and how many such
    files belong to another user.

    Regular files with a name that an attempt gives, nothing else; no symbolic link below *log_dir* is followed. A
    folder that is not there has none. Raises OSError.
    """
    found: dict[int, Left] = {}
    others = 0
    with _opened(log_dir, folder) as fd:
        for name in [] if fd is None else os.listdir(fd):
            match = _FILE.fullmatch(name)
            status = _regular(name, fd) if match is not None else None
            if match is None or status is None:
                continue
            if status.st_uid != os.geteuid():
                others += 1
                continue
            left = found.setdefault(int(match[1]), Left(task, int(match[1])))
            left.files[name] = _freed(status)
            left.newest_wall = max(left.newest_wall, status.st_mtime)
    return found, others


def remove(log_dir: str, folder: str, names: Iterable[str], failed: Callable[[str], None]) -> tuple[int, int]:
    """Remove these files of a task's folder; *failed* is told what could not be removed. Returns how many are gone and
    what that freed in bytes."""
    count = freed = 0
    with _opened(log_dir, folder) as fd:
        for name in names if fd is not None else ():
            status = _regular(name, fd)
            if status is None or _FILE.fullmatch(name) is None:
                continue
            try:
                os.unlink(name, dir_fd=fd)
            except OSError as error:
                failed(f"{folder}/{name}: {error.strerror}")
                continue
            count += 1
            freed += _freed(status)
    return count, freed


def mend_links(log_dir: str, folders: Iterable[str], removed: Container[str]) -> None:
    """Drop links of ours, in *folders* and *log_dir*, that point to what was *removed* (absolute paths) and is gone."""
    for place in (*folders, os.path.abspath(log_dir)):
        with _opened(log_dir, place) as fd:
            for name in [] if fd is None else os.listdir(fd):
                if _LINK.fullmatch(name) is None:
                    continue
                with contextlib.suppress(OSError):
                    target = os.path.normpath(os.path.join(place, os.readlink(name, dir_fd=fd)))
                    if target in removed and not os.path.lexists(target):
                        os.unlink(name, dir_fd=fd)


@contextlib.contextmanager
def _opened(log_dir: str, folder: str) -> Generator[int | None]:
    """A descriptor of *folder*, reached from *log_dir* without a symbolic link on the way; None: it is not there."""
    below = os.path.relpath(folder, os.path.abspath(log_dir))
    parts = [] if below == "." else below.split("/")
    if ".." in parts:
        raise ValueError(f"{folder} is not inside {log_dir}")
    fds: list[int] = []
    try:
        fds.append(os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for part in parts:
            fds.append(os.open(part, _FOLDER, dir_fd=fds[-1]))
    except (FileNotFoundError, NotADirectoryError):
        _close(fds)
        yield None
        return
    except OSError:
        _close(fds)
        raise
    try:
        yield fds[-1]
    finally:
        _close(fds)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _freed(status: os.stat_result) -> int:
    return status.st_blocks * _BLOCK_BYTES if status.st_nlink == 1 else 0


def _regular(name: str, fd: int | None) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


UNNEEDED_S = 30 * 86400.0
"""How old a damaged journal must be, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to remove."""

    selectors: Sequence[str] = ()
    older_than_s: float | None = None
    keep_last: int = 1
    """Attempts of each task that stay, the newest; 0: none."""
    records: bool = False
    """Also what the state folder needs no more."""


@dataclass(slots=True)
class Plan:
    """What would go, and what stays although it was meant."""

    log_dir: str
    go: list[tuple[str, Left]] = field(default_factory=list[tuple[str, Left]])
    """With each attempt's folder."""
    unneeded: list[Unneeded] = field(default_factory=list[Unneeded])
    copies: Planned = field(default_factory=lambda: Planned(Book(), ()))
    """Snapshots of the code that no unfinished task needs."""
    running: int = 0
    unknown: int = 0
    """Attempts of which neither the journal nor attempt-N.json knows the end."""
    strange: int = 0
    """Attempts that the journal does not know: another deck's with the same log folder, or of before it was lost."""
    others: int = 0
    """Files of other users."""

    @property
    def disk_bytes(self) -> int:
        return sum(left.disk_bytes for _, left in self.go) + sum(
            item.disk_bytes for item in (*self.unneeded, *self.copies.snapshots)
        )

    @property
    def files(self) -> int:
        files = sum(len(left.files) for _, left in self.go) + sum(len(item.files) for item in self.unneeded)
        return files + sum(copy.files for copy in self.copies.snapshots)


def plan_clean(offline: Offline, wanted: Wanted, *, now: float) -> Plan:
    """Look at the log folder and the state folder. *now*: seconds since the epoch. Raises OSError and UsageError."""
    plan = Plan(offline.file.settings.log_dir)
    busy = running_logs()
    names = [task.name for task in offline.select(wanted.selectors)]
    for name in names if wanted.selectors else [*names, *offline.gone]:
        _plan_task(plan, offline, name, busy, wanted, now)
    if wanted.records and offline.state is not None:
        limit = now - (UNNEEDED_S if wanted.older_than_s is None else wanted.older_than_s)
        plan.unneeded = unneeded_in(offline.state, limit, None if offline.damage else offline.journal.tokens)
    if not wanted.selectors and offline.state is not None and not offline.damage:
        limit = now if wanted.older_than_s is None else now - wanted.older_than_s
        plan.copies = removable.plan(offline.state.path, _unfinished(offline), limit)
    return plan


def _unfinished(offline: Offline) -> set[str]:
    """Tasks that may start in the run, or run still."""
    deck = offline.deck
    tasks = deck.active.values() if deck.run.ended else deck.tasks
    return {task.name for task in tasks if not isinstance(task.phase, FINAL)}


def _plan_task(
    plan: Plan,
    offline: Offline,
    name: str,
    busy: frozenset[str],
    wanted: Wanted,
    now: float,
) -> None:
    folder, journal = offline.logs.folder(name), offline.journal
    found, others = attempts_in(plan.log_dir, folder, name)
    plan.others += others
    numbers = sorted(number for number in found if _is_own(offline, folder, name, number))
    plan.strange += len(found) - len(numbers)
    real = os.path.realpath(folder) if busy else folder
    for number in numbers[: max(0, len(numbers) - wanted.keep_last)]:
        left = found[number]
        if wanted.older_than_s is not None and left.newest_wall > now - wanted.older_than_s:
            continue
        end = journal.ends.get((name, number))
        log = f"{real}/attempt-{number}.log"
        if log in busy or ((name, number) in journal.starts and end is None) or _goes_on(end):
            plan.running += 1
        elif end is None and not read_record(f"{folder}/attempt-{number}.json").get("end"):
            plan.unknown += 1
        elif _spared(left, last=number == numbers[-1]):
            plan.go.append((folder, left))


def _is_own(offline: Offline, folder: str, name: str, number: int) -> bool:
    """Several decks may have one log folder: their attempts share its numbers."""
    token = read_record(f"{folder}/attempt-{number}.json").get("token")
    known = offline.journal
    return token in known.tokens if token else (name, number) in known.starts


def _goes_on(end: AttemptEnded | None) -> bool:
    """Processes that the attempt left behind by the user's choice still write to its logs."""
    return end is not None and any(os.path.exists(f"/proc/{pid}") for pid in end.left_behind)


def _spared(left: Left, *, last: bool) -> bool:
    """Of a task's last attempt one file stays, so that numbers go on where they were even if the journal is lost.
    Returns whether anything is left to remove."""
    if last:
        keeper = f"attempt-{left.attempt}.json"
        del left.files[keeper if keeper in left.files else min(left.files)]
    return bool(left.files)


def carry_out(plan: Plan, state: str, problems: list[str]) -> tuple[int, int]:
    """Remove what *plan* names; *state*: the deck's state folder. Returns files and bytes; what cannot be removed is a
    line in *problems*."""
    files = freed = 0
    removed: set[str] = set()
    for folder, left in plan.go:
        try:
            count, size = remove(plan.log_dir, folder, left.files, problems.append)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror}")
            continue
        files, freed = files + count, freed + size
        removed |= {f"{folder}/{name}" for name in left.files}
    if removed:
        mend_links(plan.log_dir, dict.fromkeys(folder for folder, _ in plan.go), removed)
    count, size = sweep(plan.unneeded, problems.append)
    files, freed = files + count, freed + size
    if plan.copies.snapshots:
        count, size = removable.remove(state, plan.copies, problems.append)
        files, freed = files + count, freed + size
    return files, freed
