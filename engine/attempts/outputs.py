"""A task's `outputs` on disk: their state, whether an attempt left them, and whether they are a result of the task."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ..core.deck import Deck, Task
from ..core.events import Outcome
from ..core.output_history import OutputAttempt
from ..core.readiness import outputs_doubt, success_of
from ..core.spec import TaskSpec
from ..globs import matches
from ..logs.files import LogFolder
from ..logs.printable import printable
from ..ports import OthersAt
from ..text import names_text

_MAX_FILES = 10_000
"""Looked at for one pattern: a folder with a million files must not hold up an end."""
_CLOCK_SLACK_S = 2.0
"""Time stamps of network and FAT file systems are this coarse."""
_SHOWN_PATHS = 3


# -- on disk -----------------------------------------------------------------------------------------------------------


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
            below = islice(_files_below(path), _MAX_FILES) if stat.S_ISDIR(info.st_mode) else ()
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
    if stat.S_ISDIR(info.st_mode):
        size = 0
        for file in islice(_files_below(path), _MAX_FILES):
            size += file.st_size
            newest = max(newest, file.st_mtime_ns)
    return OutputStamp(info.st_ino, size, newest)


def is_empty(path: str) -> bool:
    """A file of 0 bytes, a folder without entries, or nothing at all."""
    try:
        info = os.stat(path)
        if not stat.S_ISDIR(info.st_mode):
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


# -- left by an attempt ----------------------------------------------------------------------------------------------


def judge_outputs(
    spec: TaskSpec,
    exit_code: int | None,
    started_wall: float,
    before: Mapping[str, OutputStamp],
    success_wall: float | None,
) -> Outcome:
    """The end of an attempt that has done its work; see `end.examine`."""
    missing: list[str] = []
    stale: list[str] = []
    older: list[str] = []
    for pattern in spec.outputs:
        found = [path for path in matches(pattern) if not is_empty(path)]
        stamps = {path: stamp for path in found if (stamp := stamp_of(path)) is not None}
        if not stamps:
            missing.append(_lacking(pattern, spec.cwd))
        elif all(_untouched(path, stamp, before, success_wall) for path, stamp in stamps.items()):
            stale.append(_shown(pattern, spec.cwd))
        elif all(stamp.mtime_ns < (started_wall - _CLOCK_SLACK_S) * 1e9 for stamp in stamps.values()):
            older.append(_shown(pattern, spec.cwd))
    if missing:
        return Outcome("missing output", exit_code, detail=_list(missing))
    if stale:
        return Outcome(
            "stale output",
            exit_code,
            detail=f"{_list(stale)}: as before the attempt, not written by it",
        )
    warning = f"{_list(older)}: older than the attempt" if older else ""
    return Outcome("ok", exit_code, detail=warning)


def _untouched(path: str, now: OutputStamp, before: Mapping[str, OutputStamp], success_wall: float | None) -> bool:
    """It is as it was before the attempt, and no recorded success vouches for that."""
    if before.get(path) != now:
        return False
    return success_wall is None or now.mtime_ns > (success_wall + _CLOCK_SLACK_S) * 1e9


def _lacking(pattern: str, cwd: str) -> str:
    exists = any(True for _ in matches(pattern))
    return f"{_shown(pattern, cwd)} is empty" if exists else _shown(pattern, cwd)


def _list(paths: Sequence[str]) -> str:
    return names_text(paths, _SHOWN_PATHS)


def _shown(path: str, cwd: str) -> str:
    """Relative to the task's folder where it lies below."""
    below = cwd.rstrip("/") + "/"
    return printable(path[len(below) :] if path.startswith(below) else path)


# -- a result of the task ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputsFound:
    """What files tell of a task's outputs."""

    exist: bool
    changed_wall: float = 0.0
    others: Sequence[OutputAttempt] = ()
    """Other decks' attempts at them."""
    attempted: bool = False
    """The task's log folder holds an attempt."""

    def doubt(self, deck: Deck, task: Task) -> str:
        """Why they are no result of the task, as the deck is now; "" where they are."""
        return outputs_doubt(deck, task, self.others, self.changed_wall, attempted=self.attempted)


def find_outputs(spec: TaskSpec, logs: LogFolder, others: OthersAt) -> OutputsFound:
    """Reads files. Any thread."""
    if not outputs_exist(spec.outputs):
        return OutputsFound(exist=False)
    return OutputsFound(True, changed_wall(spec.outputs), others(spec), logs.highest(spec.name) > 0)


def is_done(deck: Deck, task: Task, logs: LogFolder, others: OthersAt) -> bool:
    """By its success under this name or another, or by outputs that nothing else can have left. Reads files."""
    if not task.spec.outputs:
        return success_of(deck, task) is not None
    found = find_outputs(task.spec, logs, others)
    return found.exist and not found.doubt(deck, task)
