"""`gpudeck clean`: removes logs of attempts that are over, and what the state folder keeps and needs no more. In the
user's queue it takes off the list, too, what has ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from ...engine.adapters.processes import record
from ...engine.adapters.state.folder import StateDir
from ...engine.attempts.record import read_record
from ...engine.client.files import queue_file, queue_home, task_file
from ...engine.command import Command
from ...engine.core.events import AttemptEnded
from ...engine.core.phases import FINAL
from ...engine.decks.journal_recovery import OLD_RECORD_S
from ...engine.decks.offline import OfflineDeck, open_offline
from ...engine.errors import TaskFileError, UsageError
from ...engine.runs.engines import Engines
from ...engine.serve.offline import tasks_meant
from ...engine.snapshot.index import Book, Removable, plan_removal, remove_copies
from ...engine.text import columns_of, field_text, names_text, plural, printable, ranges, size_text
from .screen import agreed, option_s

_SHOWN = 20
_NAMED = 3


def run(command: Command) -> int:
    """Show what would be freed, ask, and remove it; an engine may run meanwhile. Returns the exit code: 1 when the user
    says no or something could not be removed. Raises DeckError."""
    given, as_json, dry_run = command.given, command.flag("json"), command.flag("dry_run")
    older_s, keep_last = option_s("--older-than", given.get("older_than")), given.get("keep_last")
    records = command.flag("records")
    path = os.path.abspath(task_file(command))
    offline = open_offline(path, command.options(), os.environ)
    if offline.broken:
        raise TaskFileError(offline.broken.splitlines())
    ended = ended_in(offline, command.words, older_s) if path == queue_file() and keep_last is None else ()
    keep_last = 1 if keep_last is None else keep_last
    try:
        plan = plan_clean(offline, command.words, older_s, keep_last=keep_last, records=records, ended=ended)
    except OSError as error:
        raise UsageError(f"{error.filename or offline.file.settings.log_dir}: {error.strerror}") from error
    nothing = not plan.go and not plan.unneeded and not plan.copies and not plan.ended
    if not as_json:
        print("\n".join(_table(plan)))
    if dry_run or nothing:
        return _say(plan, 0, 0, [], as_json=as_json, dry_run=dry_run)
    yes = command.flag("yes")
    if as_json and not yes:
        raise UsageError("nothing was removed: --json asks nobody; -y says yes, --dry-run only looks")
    if not agreed("do that?" if plan.ended else "remove them?", yes=yes):
        print("nothing was removed")
        return 1
    problems: list[str] = []
    files, freed = carry_out(plan, offline.state.path if offline.state is not None else "", problems)
    if plan.ended:
        as_root = command.flag("as_root")
        Engines(queue_home(as_root=as_root), os.environ, simulated=None, as_root=as_root).take_off(plan.ended)
    return _say(plan, files, freed, problems, as_json=as_json, dry_run=False)


# -- what is said ------------------------------------------------------------------------------------------------------


def _table(plan: Plan) -> list[str]:
    by_task: dict[str, list[Left]] = {}
    for _, left in plan.go:
        by_task.setdefault(left.task, []).append(left)
    rows = [
        (sum(left.disk_bytes for left in group), name, _numbers([left.attempt for left in group]))
        for name, group in by_task.items()
    ]
    rows += [(item.disk_bytes, item.path, item.what) for item in plan.unneeded]
    rows += [(copy.disk_bytes, copy.path, _copy(copy)) for copy in plan.copies]
    rows.sort(key=lambda row: (-row[0], row[1]))
    cells = [(size_text(size), name, what) for size, name, what in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        cells.append((size_text(sum(size for size, _, _ in rows[_SHOWN:])), f"and {len(rows) - _SHOWN:,} more", ""))
    lines = columns_of(cells, right=(0,))
    kept = {
        "not over yet": plan.running,
        "whose end nobody knows": plan.unknown,
        "of other decks, or of before this one's state was removed": plan.strange,
    }
    lines += [f"left alone: {plural(count, 'attempt')} {why}" for why, count in kept.items() if count]
    lines += [f"left alone: {plural(plan.others, 'file')} of other users"] if plan.others else []
    attempts = f" in the logs of {plural(len(plan.go), 'attempt')}" if plan.go else ""
    total = f"{size_text(plan.disk_bytes)}{attempts} ({plural(plan.files, 'file')})"
    if plan.ended:
        names = field_text(names_text(plan.ended))
        lines.append(f"to take off the list: {plural(len(plan.ended), 'ended command')} ({names}), with the logs")
    nothing = [] if plan.ended else ["nothing to remove"]
    return [*lines, *([f"to remove: {total}"] if rows else nothing)]


def _say(plan: Plan, files: int, freed: int, problems: Sequence[str], *, as_json: bool, dry_run: bool) -> int:
    for line in problems:
        print(f"not removed: {printable(line)}", file=sys.stderr)
    if as_json:
        attempts = [
            {"task": left.task, "attempt": left.attempt, "files": len(left.files), "bytes": left.disk_bytes}
            for _, left in plan.go
        ]
        state = [{"path": item.path, "bytes": item.disk_bytes} for item in (*plan.unneeded, *plan.copies)]
        kept = {
            "running": plan.running,
            "unknown": plan.unknown,
            "other_decks": plan.strange,
            "other_users_files": plan.others,
        }
        removed = {"files": files, "bytes": freed}
        told = {"dry_run": dry_run, "attempts": attempts, "state": state, "kept": kept, "removed": removed}
        print(json.dumps(told | ({"off_the_list": list(plan.ended)} if plan.ended else {})))
    elif not dry_run:
        if files or problems:
            print(f"removed {plural(files, 'file')}, {size_text(freed)}")
        if plan.ended:
            print(f"taken off the list: {plural(len(plan.ended), 'command')}")
    return 1 if problems else 0


def _copy(copy: Removable) -> str:
    if not copy.written:
        return "a copy of the code, which no task needs"
    named = ", ".join(copy.written[:_NAMED]) + (", …" if len(copy.written) > _NAMED else "")
    return f"a copy of the code, where tasks wrote {printable(named)}"


def _numbers(numbers: Sequence[int]) -> str:
    """[1, 2, 3, 7] as "attempts 1-3,7"."""
    return f"attempt{'s' * (len(numbers) > 1)} {ranges(numbers)}"


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


def mend_links(log_dir: str, removed: set[str]) -> None:
    """Drop links of ours, in *log_dir* and beside what was *removed* (absolute paths), that point to that and lead
    nowhere."""
    for place in {*map(os.path.dirname, removed), os.path.abspath(log_dir)}:
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
    with contextlib.ExitStack() as opened:
        try:
            fd = os.open(log_dir, _FOLDER & ~os.O_NOFOLLOW)
            opened.callback(os.close, fd)
            for part in parts:
                fd = os.open(part, _FOLDER, dir_fd=fd)
                opened.callback(os.close, fd)
        except (FileNotFoundError, NotADirectoryError):
            fd = None
        yield fd


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


@dataclass(slots=True)
class Plan:
    """What would go, and what stays although it was meant."""

    log_dir: str
    go: list[tuple[str, Left]] = field(default_factory=list[tuple[str, Left]])
    """With each attempt's folder."""
    unneeded: Sequence[Unneeded] = ()
    ended: Sequence[str] = ()
    """Commands of the user's queue that go off its list."""
    copies: Sequence[Removable] = ()
    """Snapshots of the code that no unfinished task needs,"""
    book: Book = field(default_factory=Book)
    """as this tells."""
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
            item.disk_bytes for item in (*self.unneeded, *self.copies)
        )

    @property
    def files(self) -> int:
        files = sum(len(left.files) for _, left in self.go) + sum(len(item.files) for item in self.unneeded)
        return files + sum(copy.files for copy in self.copies)


def plan_clean(
    offline: OfflineDeck,
    selectors: Sequence[str],
    older_s: float | None,
    *,
    keep_last: int,
    records: bool,
    ended: Sequence[str] = (),
) -> Plan:
    """Look at the log folder and the state folder. *older_s*: what is younger stays; None: of any age. *keep_last*: so
    many attempts of each task stay, the newest. *records*: also what the state folder needs no more. *ended*:
    commands of the queue that go off its list, and so none of their attempts stay. Raises OSError and UsageError."""
    plan, now = Plan(offline.file.settings.log_dir, ended=ended), time.time()
    busy = running_logs()
    names = [task.name for task in tasks_meant(offline, selectors)]
    for name in names if selectors else [*names, *offline.gone]:
        keep = 0 if name in ended else keep_last
        _plan_task(plan, offline, name, busy, inf if older_s is None else now - older_s, keep)
    if records and offline.state is not None:
        limit = now - (UNNEEDED_S if older_s is None else older_s)
        plan.unneeded = unneeded_in(offline.state, limit, None if offline.damage else offline.journal.tokens)
    if not selectors and offline.state is not None and not offline.damage:
        plan.book, plan.copies = plan_removal(offline.state.path, _unfinished(offline), now - (older_s or 0.0))
    return plan


def ended_in(offline: OfflineDeck, selectors: Sequence[str], older_s: float | None) -> list[str]:
    """Commands of the queue that have ended, before *older_s* ago where that is said."""
    limit = inf if older_s is None else time.time() - older_s
    over = [task for task in tasks_meant(offline, selectors) if isinstance(task.phase, FINAL) and not task.gone]
    return [task.name for task in over if not task.ended or task.ended[-1].wall <= limit]


def _unfinished(offline: OfflineDeck) -> set[str]:
    """Tasks that may start in the run, or run still."""
    deck = offline.deck
    tasks = deck.active.values() if deck.run.ended else deck.tasks
    return {task.name for task in tasks if not isinstance(task.phase, FINAL)}


def _plan_task(
    plan: Plan, offline: OfflineDeck, name: str, busy: frozenset[str], limit_wall: float, keep_last: int
) -> None:
    folder, journal = offline.logs.folder(name), offline.journal
    found, others = attempts_in(plan.log_dir, folder, name)
    plan.others += others
    numbers = sorted(number for number in found if _is_own(offline, folder, name, number))
    plan.strange += len(found) - len(numbers)
    real = os.path.realpath(folder) if busy else folder
    for number in numbers[: max(0, len(numbers) - keep_last)]:
        left = found[number]
        if left.newest_wall > limit_wall:
            continue
        end = journal.ends.get((name, number))
        log = f"{real}/attempt-{number}.log"
        if log in busy or ((name, number) in journal.starts and end is None) or _goes_on(end):
            plan.running += 1
        elif end is None and not read_record(f"{folder}/attempt-{number}.json").get("end"):
            plan.unknown += 1
        elif _spared(left, last=number == numbers[-1]):
            plan.go.append((folder, left))


def _is_own(offline: OfflineDeck, folder: str, name: str, number: int) -> bool:
    """Several decks may have one log folder: their attempts share its numbers."""
    token = read_record(f"{folder}/attempt-{number}.json").get("token")
    known = offline.journal
    return token in known.tokens if token else (name, number) in known.starts


def _goes_on(end: AttemptEnded | None) -> bool:
    """Processes that the attempt left behind by the user's choice still write to its logs."""
    return end is not None and any(os.path.exists(f"/proc/{pid}") for pid in end.left_behind)


def _spared(left: Left, *, last: bool) -> bool:
    """What an attempt ran and came to stays told; and of a task's last attempt one file stays, so that numbers go on
    where they were even if the journal is lost. Returns whether anything is left to remove."""
    record = f"attempt-{left.attempt}.json"
    if last and record not in left.files:
        record = min(left.files)
    left.files.pop(record, None)
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
        mend_links(plan.log_dir, removed)
    count, size = sweep(plan.unneeded, problems.append)
    files, freed = files + count, freed + size
    if plan.copies:
        count, size = remove_copies(state, plan.book, plan.copies, problems.append)
        files, freed = files + count, freed + size
    return files, freed


_DAMAGED = re.compile(r"damaged-\d{8}-\d{6}(?:-\d+)?")
_SET_ASIDE = re.compile(r"deck\.db(?:-wal|-shm)?")
_COPY = re.compile(r"deck\.db\.v\d+(?:\.part)?")
_TOKEN = re.compile(r"[0-9a-f]{8,64}")
_LOG = b"GPUDECK_LOG="


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A file in the state folder, or a folder with files of ours alone."""

    path: str
    what: str
    files: tuple[str, ...]
    """Absolute; `path` itself where it is a file."""
    disk_bytes: int


def running_logs() -> frozenset[str]:
    """Log files (stdout's, without symbolic links in the path) of all attempts of which a process lives on this box,
    whoever knows of it; as far as the caller may look into processes."""
    mine = (path for pid in os.listdir("/proc") if pid.isdigit() for path in _log_of(pid))
    return frozenset(mine)


def _log_of(pid: str) -> Iterator[str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return
    for pair in pairs:
        if pair.startswith(_LOG):
            yield os.path.realpath(os.fsdecode(pair[len(_LOG) :]))


def unneeded_in(state: StateDir, limit_wall: float, known_tokens: Container[str] | None) -> list[Unneeded]:
    """Damaged journals and copies of older formats last changed before *limit_wall*, and records of attempts that the
    journal does not know; None: it is damaged, and they may be all that tells of their ends."""
    found: list[Unneeded] = []
    for entry in _entries(state.path):
        if entry.stat(follow_symlinks=False).st_mtime > limit_wall:
            continue
        if entry.is_dir(follow_symlinks=False) and _DAMAGED.fullmatch(entry.name):
            inside = [item for item in _entries(entry.path) if _is_file(item) and _SET_ASIDE.fullmatch(item.name)]
            found.append(_unneeded(entry.path, "a damaged journal, set aside", inside))
        elif _is_file(entry) and _COPY.fullmatch(entry.name):
            found.append(_unneeded(entry.path, "a journal before its format changed", [entry]))
    if known_tokens is None:
        return found
    return found + [
        _unneeded(entry.path, "a record of a start that came to nothing", [entry])
        for entry in _entries(state.attempts)
        if entry.name not in known_tokens and _is_file(entry) and _TOKEN.fullmatch(entry.name) and _is_over(entry)
    ]


def sweep(unneeded: Iterable[Unneeded], failed: Callable[[str], None]) -> tuple[int, int]:
    """Remove it. Returns how many files are gone and what that freed in bytes."""
    count = freed = 0
    for item in unneeded:
        try:
            for path in item.files:
                os.unlink(path)
                count += 1
            if item.path not in item.files:
                os.rmdir(item.path)
            freed += item.disk_bytes
        except FileNotFoundError:
            continue
        except OSError as error:
            failed(f"{item.path}: {error.strerror}")
    return count, freed


def _is_over(entry: os.DirEntry[str]) -> bool:
    """A wrapper that was late for its start has come and gone, and the engine had the time to read its end."""
    age_limit = entry.stat(follow_symlinks=False).st_mtime + OLD_RECORD_S
    return age_limit < time.time() and record.read(entry.path).living() is None


def _unneeded(path: str, what: str, entries: Iterable[os.DirEntry[str]]) -> Unneeded:
    files = list(entries)
    size = sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in files)
    return Unneeded(path, what, tuple(entry.path for entry in files), size)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
