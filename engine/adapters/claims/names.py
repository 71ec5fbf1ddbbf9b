"""Who is behind a lock: a small file of each deck beside the lock file. For people only; the locks decide."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from ...text import printable, shorten
from .. import host
from ..processes import proc
from .file import NAME, LockFile, UnusableError, lock_folder

GATHERING = ""
"""In the place of a token: the task that waits for several GPUs."""
_PREFIX = "deck-"
_LARGEST = 65536
_LONGEST = 80
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """What a deck tells of itself."""

    deck: str
    user: str
    host: str
    pid: int
    gpus: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """By UUID: the tasks that it has the GPU for, by their attempts' tokens."""
    next: bool = False
    """A task of it goes before the user's other decks."""


class Board:
    """This deck's file, and a look at those of others. Nothing here raises: names are a courtesy."""

    def __init__(self, lock: LockFile, key: str) -> None:
        """It lies beside *lock*. *key* is the same for every engine of one deck of one user."""
        self.lock = lock
        self._folder_fd = lock.folder_fd
        self._name = _PREFIX + blake2b(key.encode(errors="surrogateescape"), digest_size=8).hexdigest()
        self._fd = -1
        self._length = 0

    def write(self, entry: Entry) -> None:
        """Tell; in one write in place, never shorter than before, so that readers find one version or the other."""
        with contextlib.suppress(OSError):
            if self._fd < 0 or not os.fstat(self._fd).st_nlink:
                self._close_own()
                self._fd = self._open()
            content = msgspec.json.encode(entry).ljust(self._length)
            os.pwrite(self._fd, content, 0)
            self._length = len(content)

    def others(self) -> list[Entry]:
        """What all decks but this one tell, the newest last: an engine that was killed has left old news."""
        try:
            names = [name for name in os.listdir(self._folder_fd) if name.startswith(_PREFIX) and name != self._name]
        except OSError:
            return []
        found = [read for name in names if (read := self._read(name)) is not None]
        return [entry for _, entry in sorted(found, key=lambda read: read[0])]

    def by_gpu(self) -> dict[str, Entry]:
        """The newest of `others` for each GPU."""
        return {uuid: entry for entry in self.others() for uuid in entry.gpus}

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder_fd)

    def close(self) -> None:
        """Of *lock*, too, everything is let go of."""
        self._close_own()
        self.lock.close()

    def _close_own(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        """Ours, or none: somebody else's file of that name, or a link, is not written to."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(self._name, flags, 0o644, dir_fd=self._folder_fd)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
            os.close(fd)
            raise FileExistsError(self._name)
        os.fchmod(fd, 0o644)
        self._length = status.st_size
        return fd

    def _read(self, name: str) -> tuple[int, Entry] | None:
        """When it was written, and what."""
        for _ in range(_TRIES):  # a second time where the first met it half written
            try:
                fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._folder_fd)
            except OSError:
                return None
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    return None
                return status.st_mtime_ns, msgspec.json.decode(os.pread(fd, _LARGEST, 0), type=Entry)
            except (OSError, ValueError, msgspec.ValidationError):
                continue
            finally:
                os.close(fd)
        return None


def describe(entry: Entry | None, uuid: str, host: str) -> str:
    """ "deck pets-sweep of alice has it (engine 8123)"; what others wrote is cut and cleaned for a terminal.

    *host*: our own name. A container has another, and pids of its own.
    """
    if entry is None:
        return "another deck has it"
    has = "has it"
    tasks = entry.gpus.get(uuid, {})
    if set(tasks) == {GATHERING}:
        has = f"keeps it for {_plain(tasks[GATHERING])}"
    engine = f"engine {entry.pid}"
    if entry.host != host:
        engine += f" on {_plain(entry.host)}"
    elif not _runs(entry.pid):
        engine += " is gone, its task runs on"
    return f"deck {_plain(entry.deck)} of {_plain(entry.user)} {has} ({engine})"


def _plain(text: str) -> str:
    return shorten(printable(text), _LONGEST)


def _runs(pid: int) -> bool:
    """A zombie does not: where nobody reaps orphans a killed engine stays one."""
    process = proc.stat(pid)
    return process.live if process is not None else proc.exists(pid)  # hidden from us (hidepid)


# -- for somebody who has no claim himself: nothing is locked, made or changed ----------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """That a deck has a GPU. Names are "" where the deck has not told them."""

    text: str
    """ "deck pets-sweep of alice has it (engine 8123)"."""
    deck: str = ""
    user: str = ""
    host: str = ""
    engine: int = 0
    """Its pid, also of one that is gone."""
    tasks: tuple[str, ...] = ()


def claims_on(gpus: Collection[str], environ: Mapping[str, str]) -> dict[str, Claim]:
    """Those of *gpus*, by UUID, that some deck has; {} where this box has no claims."""
    folder = lock_folder(environ)
    if not os.path.exists(os.path.join(folder, NAME)):
        return {}
    try:
        board = Board(LockFile(folder), "")
    except UnusableError:
        return {}
    try:
        taken = board.lock.elsewhere(gpus)
        by_gpu = board.by_gpu() if taken else {}
    finally:
        board.close()
    return {uuid: _claim(by_gpu.get(uuid), uuid) for uuid in taken}


def _claim(entry: Entry | None, uuid: str) -> Claim:
    text = describe(entry, uuid, host.hostname())
    if entry is None:
        return Claim(text)
    tasks = sorted({task for token, task in entry.gpus[uuid].items() if token != GATHERING and task})
    return Claim(text, entry.deck, entry.user, entry.host, entry.pid, tuple(tasks))
