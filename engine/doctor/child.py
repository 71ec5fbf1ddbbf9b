"""Processes of the doctor: each has a time limit, and none of its tree is left behind.

What they write goes to files: a pipe that a grandchild holds open would keep us waiting. A process that the kernel
does not let go of (a driver that hangs) is given up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from ..adapters.processes import proc

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_S = 0.05
_GRACE_S = 3.0
_KILL_S = 3.0
_MOST = 1024 * 1024
"""Bytes that are read of what a process wrote, from its end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended. *code* is None after the time limit, negative for a signal, 127 where it could not start."""

    code: int | None
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """What it said last, on stderr before stdout."""
        lines = [line.strip() for text in (self.out, self.err) for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else ""

    @property
    def how(self) -> str:
        """ "exit code 1: No module named x"."""
        code = self.code
        if code is None:
            return "no end in time"
        what = f"killed by {_name(-code)}" if code < 0 else f"exit code {code}"
        return f"{what}: {self.last_line}" if self.last_line else what


def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: str, limit_s: float, stdin: str = "") -> Ended:
    """Run a program to its end, or for *limit_s*: then TERM, and KILL for all that descends from it."""
    with Child(argv, env=env, cwd=cwd, stdin=stdin) as child:
        child.wait(limit_s)
    return child.ended()


class Child:
    """A process with a session of its own. Leaving the context ends its whole tree."""

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, stdin: str = "", hold: bool = False
    ) -> None:
        """*hold*: its stdin stays open until `let_go`."""
        self._argv, self._env, self._cwd = argv, dict(env), cwd
        self._in = subprocess.PIPE if hold else _file(stdin)
        self._out = _file()
        self._err = _file()
        self._trees: set[int] = set()
        self._late = False
        self._trouble = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """0: it could not start."""
        return self._process.pid if self._process is not None else 0

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self, limit_s: float) -> bool:
        """Whether it ended within *limit_s*. Meanwhile it is noted which sessions belong to its tree."""
        self._until_gone(limit_s)
        self._late = self.runs()
        return not self._late

    def said(self) -> str:
        """What it has written so far."""
        return _read(self._out)

    def let_go(self) -> None:
        """Close its stdin: it may end."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def ended(self) -> Ended:
        """How it ended; to be asked after the context."""
        out, err = _read(self._out), _read(self._err)
        self._out.close()
        self._err.close()
        if self._process is None:
            return Ended(127, "", self._trouble)
        return Ended(None if self._late else self._process.returncode, out, err)

    def __enter__(self) -> Child:
        try:
            with _signals_later():
                self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._argv, env=self._env, cwd=self._cwd, stdin=self._in, stdout=self._out, stderr=self._err,
                start_new_session=True,
            )  # fmt: skip
            self._trees.add(self._process.pid)
        except OSError as error:
            self._trouble = f"{error.filename or self._argv[0]}: {error.strerror}"
        except ValueError as error:
            self._trouble = str(error)

    def __exit__(self, *_: object) -> None:
        self.let_go()
        if self._process is None:
            return
        if self.runs():
            self._note()
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._until_gone(_GRACE_S)
        self._end_tree()

    def _note(self) -> None:
        """Launchers give their workers sessions of their own, by which these are found when their parent is gone."""
        if self._process is not None:
            self._trees |= {process.session for process in proc.descend([self._process.pid]).values()}
            self._trees.discard(os.getsid(0))

    def _until_gone(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while self.runs() and time.monotonic() < deadline:
            self._note()
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_LOOK_S)

    def _end_tree(self) -> None:
        deadline = time.monotonic() + _KILL_S
        while members := [pid for pid, each in proc.everyone().items() if each.session in self._trees and each.live]:
            self._note()
            for pid in members:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if self._process is not None:
                self._process.poll()
            if time.monotonic() > deadline:
                return
            time.sleep(_LOOK_S / 5)
        self._until_gone(_KILL_S)


@contextlib.contextmanager
def _signals_later() -> Generator[None]:
    """What ends this process waits until a process that starts is known, so that it is ended, too. Blocking signals
    would not do: what starts would have them blocked."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def _file(content: str = "") -> IO[bytes]:
    """Without a name; at its beginning."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(content.encode())
    file.seek(0)
    return file


def _read(file: IO[bytes]) -> str:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), _MOST, max(0, size - _MOST)).decode("utf-8", "replace")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
