"""The files of a journal: what can be told without opening them, setting a damaged set aside, the space in reserve."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from dataclasses import dataclass

from ...atomic import sync_dir
from ..host import boottime_s
from .schema import APPLICATION_ID

_MAX_VERSION = 9999
_MAGIC = b"SQLite format 3\0"
_SUFFIXES = ("", "-wal", "-shm")
RESERVE_BYTES = 1 << 20
_MARGIN_BYTES = 1 << 18
_PROBE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Glance:
    """What the first bytes tell. SQLite must not open a file with a problem: it would void the WAL beside it."""

    exists: bool
    version: int = 0
    problem: str = ""


def glance(path: str) -> Glance:
    """Look at the db's header without SQLite."""
    wal_bytes = _size(path + "-wal")
    try:
        with open(path, "rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return Glance(False, problem="it is missing, its -wal is not" if wal_bytes else "")
    if not head:
        return Glance(False, problem="it is empty, its -wal is not" if wal_bytes else "")
    if len(head) < 100 or not head.startswith(_MAGIC):
        return Glance(True, problem="it is no database")
    version = int.from_bytes(head[60:64], "big")
    modes = set(head[18:20]) <= {1, 2}
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID or not 0 < version <= _MAX_VERSION or not modes:
        return Glance(True, problem="it is no journal of gpudeck")
    return Glance(True, version)


def has_wal(path: str) -> bool:
    return os.path.exists(path + "-wal")


def indexed_frames(path: str) -> int:
    """How many frames of the -wal SQLite's index of it (-shm) tells of; 0 without an index.
    https://sqlite.org/walformat.html#the_wal_index_file_format"""
    try:
        with open(path + "-shm", "rb") as file:
            return int.from_bytes(file.read(20)[16:], sys.byteorder)
    except FileNotFoundError:
        return 0


def committed_frames(path: str) -> int:
    """How many frames had reached the disk when who wrote them was killed; 0 where that cannot be told any more: no
    index outlives a crash of the box for certain. To be called before SQLite opens the db and makes the index anew."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path + "-shm").st_mtime > time.time() - boottime_s():
            return indexed_frames(path)
    return 0


def unread_commits(path: str, page_bytes: int) -> int:
    """How many commits in the -wal lie behind a frame that SQLite could not read and stopped at, as it does silently.

    To be called after a read-only connection was closed, which leaves its index (-shm). The last commit may be torn
    by a power cut; with two or more the first had reached the disk, and the -wal was damaged since.
    https://sqlite.org/fileformat2.html#the_write_ahead_log
    """
    try:
        read = indexed_frames(path)
        with open(path + "-wal", "rb") as file:
            salts = {file.read(32)[16:24], file.read(24)[8:16]}
            file.seek(32 + read * (24 + page_bytes))
            commits = 0
            while len(header := file.read(24)) == 24:
                commits += header[8:16] in salts and header[4:8] != bytes(4)
                file.seek(page_bytes, os.SEEK_CUR)
    except FileNotFoundError:
        return 0
    return commits


def staged(path: str) -> str:
    """Where a replacement for *path* is built."""
    return path + ".new"


def fresh(path: str) -> str:
    """Where the first db of a deck is built."""
    return path + ".begin"


def finish_replacement(path: str) -> None:
    """Complete or drop a `replace` that a crash cut short, and drop a beginning."""
    new, begun = staged(path), fresh(path)
    if os.path.exists(new) and not os.path.exists(path):
        _set_aside(path)
        os.rename(new, path)
        sync_dir(os.path.dirname(path))
    for stale in (new, new + "-journal", begun, begun + "-journal"):
        if os.path.exists(stale):
            os.unlink(stale)


def replace(path: str) -> str:
    """Move the db, its -wal and its -shm together into `damaged-DATE/` beside them, put the staged db in its place.

    Returns the folder. The db goes first: from then on a crash leaves either everything or a finished replacement.
    """
    folder = _set_aside(path)
    os.rename(staged(path), path)
    sync_dir(os.path.dirname(path))
    return folder


def _set_aside(path: str) -> str:
    present = [suffix for suffix in _SUFFIXES if os.path.exists(path + suffix)]
    if not present:
        return ""
    base = os.path.join(os.path.dirname(path), time.strftime("damaged-%Y%m%d-%H%M%S"))
    folder, count = base, 1
    while os.path.exists(folder):
        count += 1
        folder = f"{base}-{count}"
    os.mkdir(folder, 0o700)
    for suffix in present:
        os.rename(path + suffix, os.path.join(folder, os.path.basename(path) + suffix))
    return folder


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


class Reserve:
    """Space kept for what must be written when the disk is full."""

    def __init__(self, path: str) -> None:
        self._path = path

    def make(self) -> None:
        """Take the space, a little more of it for a moment so that full and not full do not alternate. Idempotent.
        Raises OSError."""
        if _size(self._path) == RESERVE_BYTES:
            return
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _allocate(fd, RESERVE_BYTES + _MARGIN_BYTES)
            os.ftruncate(fd, RESERVE_BYTES)
        except OSError:
            os.ftruncate(fd, 0)
            raise
        finally:
            os.close(fd)

    def release(self) -> None:
        """Give the space to the file system."""
        os.truncate(self._path, 0)

    def probe(self) -> OSError | None:
        """Why nothing can be written here now; None when it can. Tells a full quota from a failing disk."""
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.pwrite(fd, b"\1" * _PROBE_BYTES, 0) < _PROBE_BYTES:
                    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            return error
        return None


def _allocate(fd: int, count: int) -> None:
    try:
        os.posix_fallocate(fd, 0, count)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        if os.pwrite(fd, bytes(count), 0) < count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
