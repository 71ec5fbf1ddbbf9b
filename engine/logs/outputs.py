"""What a task's `outputs` match on disk, and whether that changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from ..globs import matches

_MAX_FILES = 10_000
"""Looked at for one pattern: a folder with a million files must not hold up an end."""


@dataclass(frozen=True, slots=True)
class OutputStamp:
    """What tells one state of an output from another; of a folder: its files together."""

    inode: int
    size: int
    """Bytes; of a folder the sum over its files."""
    mtime_ns: int
    """Of a folder the newest of it and its files."""


def stamp_outputs(patterns: Iterable[str]) -> Mapping[str, OutputStamp]:
    """The state of everything that *patterns* (absolute paths or globs) match, by path. Empty files count too.

    Some µs for a path; a `**` or a big folder takes as long as listing it.
    """
    stamps: dict[str, OutputStamp] = {}
    for pattern in patterns:
        for path in islice(matches(pattern), _MAX_FILES):
            if (stamp := stamp_of(path)) is not None:
                stamps[path] = stamp
    return stamps


def changed_wall(patterns: Iterable[str]) -> float:
    """When anything that *patterns* match changed last, its name and mode included: what unpacks or copies may set an
    old mtime. Seconds since the epoch; 0: nothing is there."""
    newest = 0.0
    for pattern in patterns:
        for path in islice(matches(pattern), _MAX_FILES):
            try:
                info = os.stat(path)
            except (OSError, ValueError):
                continue
            below = islice(_files_below(path), _MAX_FILES) if _is_folder(info) else ()
            newest = max(newest, *(max(each.st_mtime, each.st_ctime) for each in (info, *below)))
    return newest


def outputs_exist(patterns: Iterable[str]) -> bool:
    """Each pattern matches a file or a folder that is not empty. No pattern: True."""
    return all(any(not is_empty(path) for path in matches(pattern)) for pattern in patterns)


def stamp_of(path: str) -> OutputStamp | None:
    """None: nothing there. Follows links."""
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return None
    size, newest = info.st_size, info.st_mtime_ns
    if _is_folder(info):
        size = 0
        for file in islice(_files_below(path), _MAX_FILES):
            size += file.st_size
            newest = max(newest, file.st_mtime_ns)
    return OutputStamp(info.st_ino, size, newest)


def is_empty(path: str) -> bool:
    """A file of 0 bytes, a folder without entries, or nothing at all."""
    try:
        info = os.stat(path)
        if not _is_folder(info):
            return info.st_size == 0
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except (OSError, ValueError):
        return True


def _files_below(folder: str) -> Iterator[os.stat_result]:
    for here, _, files in os.walk(folder):
        for name in files:
            try:
                yield os.lstat(os.path.join(here, name))
            except OSError:
                continue


def _is_folder(info: os.stat_result) -> bool:
    return (info.st_mode & 0o170000) == 0o040000
