"""Which functions of gpudeck each test runs, in its own process and in those that are forked for it.

With GPUDECK_TEST_MAP=FOLDER in the environment every process writes a file there: a line `# TEST` for each test, then
`FILE:LINE` for each function that it enters for the first time, at once: a process that is killed has told, too.
`read` puts them together; tests/mutate.py chooses tests by it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "GPUDECK_TEST_MAP"
_OURS = tuple(f"{ROOT}/{folder}/" for folder in ("cli", "engine", "tui", "distributed"))

Functions = defaultdict[tuple[str, int], set[str]]
"""Tests by the function that they run: its file below the root and its first line, decorators included."""


class Recorder:
    """Writes down what this process runs."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}")
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._seen: set[int] = set()
        atexit.register(sys.setprofile, None)
        sys.setprofile(self._look)
        threading.setprofile(self._look)

    def test(self, name: str) -> None:
        """What comes now is run by this test."""
        os.write(self._fd, f"# {name}\n".encode())
        self._seen.clear()
        sys.setprofile(self._look)  # whatever the test before has done to it

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if id(code) in self._seen:
            return
        self._seen.add(id(code))
        if code.co_filename.startswith(_OURS):
            place = f"{code.co_filename[len(str(ROOT)) + 1 :]}:{code.co_firstlineno}\n"
            with contextlib.suppress(OSError):  # a test may forbid this process to write
                os.write(self._fd, place.encode())


def record(folder: str | None) -> Recorder | None:
    """Record in *folder* from now on, if there is one."""
    if not folder:
        return None
    recorder = Recorder(folder)
    if current := os.environ.get("PYTEST_CURRENT_TEST"):
        recorder.test(current.rpartition(" (")[0])
    return recorder


def read(folder: Path) -> Functions:
    """What was recorded there."""
    found: Functions = defaultdict(set)
    for path in folder.iterdir():
        test = ""
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("# "):
                test = line[2:]
            elif test and ":" in line:
                file, _, number = line.rpartition(":")
                found[file, int(number)].add(test)
    return found
