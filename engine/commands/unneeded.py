"""What `gpudeck clean` must know beside the logs: which logs processes still write to, and what lies in the state
folder that nothing needs."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass

from ..adapters.processes import record
from ..adapters.state.folder import StateDir
from ..opening.left_behind import OLD_RECORD_S

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
    found += [
        _unneeded(entry.path, "a record of a start that came to nothing", [entry])
        for entry in (_entries(state.attempts) if known_tokens is not None else ())
        if entry.name not in (known_tokens or ())
        and _is_file(entry)
        and _TOKEN.fullmatch(entry.name)
        and _is_over(entry)
    ]
    return found


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
    wrapper = record.read(entry.path).wrapper
    age_limit = entry.stat(follow_symlinks=False).st_mtime + OLD_RECORD_S
    return age_limit < time.time() and (wrapper is None or wrapper.living() is None)


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
