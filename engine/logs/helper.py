"""The engine's end of the helper process that reads logs: its pipes, what it is busy with, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .follow_main import GUARD

_MODULE = "gpudeck.engine.logs.follow_main"
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _shared() -> int:
    """A file without a name, in memory where the kernel and Python can. Raises OSError."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.memfd_create("gpudeck-place", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class LogHelper:
    """One process. It stays in this process's session, and dies with this process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[dict[str, Any]], None], store: str) -> None:
        """Starts it. *answer* is told each of its answers, on the loop's thread. *store*: the file in which it keeps
        what it has seen. Raises OSError."""
        self._loop = loop
        self._answer = answer
        self._out = b""
        self._rest = b""
        self.gone = False
        """It is dead, or says nothing that can be understood."""
        fd = _shared()
        try:
            os.ftruncate(fd, GUARD.size)
            self._guard = mmap.mmap(fd, GUARD.size)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(fd), store],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(fd,),
                cwd="/",
            )
        finally:
            os.close(fd)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in_fd, self._out_fd = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in_fd, False)
        os.set_blocking(self._out_fd, False)
        loop.add_reader(self._out_fd, self._read)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, *requests: dict[str, Any]) -> None:
        """Send as much as the pipe takes; the rest goes with the next call."""
        self._out += b"".join(json.dumps(request).encode() + b"\n" for request in requests)
        with contextlib.suppress(OSError):  # full, or it is dead: silence tells
            self._out = self._out[os.write(self._in_fd, self._out) :]

    def place(self) -> tuple[int, int]:
        """The attempt that it is busy with, and with what of it; (0, 0): nothing."""
        return GUARD.unpack_from(self._guard, 0)

    def activity(self) -> tuple[float, bool]:
        """Processor time that it has used, in seconds, and whether it wants more; (0.0, False) when that cannot be
        read."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) * _TICK_S, fields[0] == b"R"
        except (OSError, ValueError, IndexError):
            return 0.0, False

    def wait(self, over: Callable[[], bool], timeout_s: float) -> None:
        """Take answers, blocking, until *over* or for so long."""
        deadline = time.monotonic() + timeout_s
        while not over() and not self.gone and (left := deadline - time.monotonic()) > 0:
            self.send()
            if self._has_answer(min(left, 0.1)):
                self._read()

    def poll(self) -> None:
        """Take what it has answered and nobody has read."""
        if not self.gone and self._has_answer(0.0):
            self._read()

    def end(self) -> None:
        """Kill it. Does not wait for what hangs in the kernel."""
        self._loop.remove_reader(self._out_fd)
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.05)
        self._guard.close()

    def _has_answer(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._out_fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _read(self) -> None:
        try:
            raw = os.read(self._out_fd, 1 << 20)
        except BlockingIOError:
            return
        except OSError:
            raw = b""
        if not raw:
            self.gone = True
            self._loop.remove_reader(self._out_fd)
            return
        *lines, self._rest = (self._rest + raw).split(b"\n")
        try:
            answers = [json.loads(line) for line in lines]
        except ValueError:
            self.gone = True
            return
        for answer in answers:
            self._answer(answer)
