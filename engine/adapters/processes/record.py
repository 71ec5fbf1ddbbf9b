"""The record file of an attempt: made by its wrapper before anything runs, closed by it with the exit code.

    start UPTIME PID       the wrapper's pid, and a moment at which it held it
    end CODE UPTIME        CODE is a number, or spawn-cwd, spawn-log, spawn-fork

UPTIME is the first number of /proc/uptime, in seconds.

A line counts only with its newline. A file that an engine made (`void`) forbids the start for good.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from . import proc

_VOID = b"void\n"


@dataclass(frozen=True, slots=True)
class Record:
    """What a record file tells."""

    void: bool = False
    """An engine took the place of the wrapper: it never ran and never will."""
    pid: int = 0
    """The wrapper's, which held it at *uptime_s*; 0: its line is missing or torn, nothing ran."""
    uptime_s: float = 0.0
    end: str = ""
    """The code as written, or "spawn-cwd", "spawn-log", "spawn-fork"; "" while it runs or when nobody wrote it."""
    end_uptime_s: float = 0.0

    @property
    def never_ran(self) -> bool:
        """The box refused the command what it needs to begin."""
        return self.void or self.end in ("spawn-log", "spawn-fork")

    def living(self) -> proc.Stat | None:
        """The wrapper's process as it is now, None when it is gone or there was none."""
        now = proc.stat(self.pid) if self.pid else None
        # Whoever got the pid later started later.
        return now if now is not None and now.live and now.start_ticks <= proc.latest_tick(self.uptime_s) else None


def read(path: str) -> Record:
    """Read a record; a missing file is an empty record."""
    data = proc.read(path)
    return Record() if data is None else parse(data)


def parse(data: bytes) -> Record:
    """What the whole lines of a record tell."""
    if data == _VOID:
        return Record(void=True)
    lines = data.split(b"\n")[:-1]
    # An end without a start: somebody removed the file under a running wrapper.
    pid, uptime_s = _started(lines[0]) if lines else (0, 0.0)
    end, end_uptime_s = _ended(lines[-1]) if len(lines) > 1 else ("", 0.0)
    return Record(pid=pid, uptime_s=uptime_s, end=end, end_uptime_s=end_uptime_s)


def claim(path: str) -> bool:
    """Take the place of a wrapper that has not begun: True proves that it never ran and never will.

    Raises OSError when neither can be told (full disk, no permission).
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with contextlib.suppress(OSError):
        os.write(fd, _VOID)  # on a full disk the empty file forbids the start as well
    os.close(fd)
    return True


def drop(path: str) -> None:
    """Remove a record. Idempotent."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _started(line: bytes) -> tuple[int, float]:
    words = line.split()
    if len(words) < 3 or words[0] != b"start":
        return 0, 0.0
    try:
        return int(words[2]), float(words[1])
    except ValueError:
        return 0, 0.0


def _ended(line: bytes) -> tuple[str, float]:
    words = line.split()
    if len(words) != 3 or words[0] != b"end":
        return "", 0.0
    try:
        return words[1].decode("ascii"), float(words[2])
    except ValueError:
        return "", 0.0
