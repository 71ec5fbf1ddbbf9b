"""Files that attempts have left below LOG_DIR: what there is, and removing some of it."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Container, Generator, Iterable
from dataclasses import dataclass, field

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
