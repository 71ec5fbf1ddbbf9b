"""What an attempt left in its folder, read in a daemon thread: the folder may lie on a file server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ..engine.logs.digest import digest
from ..engine.logs.ran import words_in
from ..engine.logs.record import read_record

_LINES = 20
_KEPT = 50


@dataclass(frozen=True, slots=True)
class Files:
    """Where one attempt's files are."""

    json: str
    out: str
    err: str
    ended: bool
    failed: bool = False
    """The end of what it wrote is of interest."""


@dataclass(frozen=True, slots=True)
class Left:
    """What they say. Empty where they say nothing."""

    digest: tuple[str, ...] = ()
    git: str = ""
    host: str = ""
    end: Mapping[str, Any] | None = None
    """Under `end` in attempt-N.json."""
    command: tuple[str, ...] = ()
    """What it executed."""


class AttemptFiles:
    """*told* is called through *deliver*, which brings a call onto the UI's thread, when something has been read."""

    def __init__(self, deliver: Callable[[Callable[[], None]], None], told: Callable[[], None]) -> None:
        self._deliver = deliver
        self._told = told
        self._found: dict[Files, Left | None] = {}
        """None: it is being read."""
        self._wanted: queue.SimpleQueue[Files | None] = queue.SimpleQueue()
        self._started = False

    def of(self, files: Files) -> Left | None:
        """None: not read yet, it will be told."""
        if files not in self._found:
            self._found[files] = None
            while len(self._found) > _KEPT:
                del self._found[next(iter(self._found))]
            self.again(files)
        return self._found[files]

    def again(self, files: Files) -> None:
        """Read them once more: of an attempt that has just begun or ended not all is written yet."""
        self._wanted.put(files)
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="gpudeck-attempt", daemon=True).start()

    def close(self) -> None:
        self._wanted.put(None)

    def _run(self) -> None:
        while (files := self._wanted.get()) is not None:
            left = read(files)
            self._deliver(lambda files=files, left=left: self._take(files, left))

    def _take(self, files: Files, left: Left) -> None:
        if self._found.get(files) != left:
            self._found[files] = left
            self._told()


def read(files: Files) -> Left:
    """Blocks. Raises nothing."""
    record = read_record(files.json)
    lines = digest(files.err, files.out, _LINES) if files.failed else ()
    end = record.get("end")
    return Left(
        lines,
        git_text(record.get("git")),
        str(record.get("host") or ""),
        cast("Mapping[str, Any]", end) if isinstance(end, dict) else None,
        words_in(record),
    )


def git_text(git: object) -> str:
    """ "1a2b3c4d5e on main, with changes"."""
    if not isinstance(git, dict):
        return ""
    state = cast("Mapping[str, Any]", git)
    commit = str(state.get("commit") or "")[:10] or "no commit yet"
    branch = f" on {state['branch']}" if state.get("branch") else ""
    return f"{commit}{branch}" + (", with changes that are not committed" if state.get("dirty") else "")
