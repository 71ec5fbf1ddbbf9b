"""Programs in pseudo-terminals: what they write, how fast, and what they cost meanwhile."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from fcntl import ioctl

import psutil

SIZE = (140, 40)
"""Columns and rows."""
DEADLINE_S = 60.0


class Terminal:
    """A program in a pseudo-terminal, and all that it has written since the last key."""

    def __init__(
        self, argv: Sequence[str], folder: str, env: Mapping[str, str], *, size: tuple[int, int] = SIZE
    ) -> None:
        """*size*: columns and rows."""
        self.began = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], list(argv), {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
        ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._text = bytearray()
        self._last = b""

    def press(self, keys: str) -> float:
        """Type, and forget what was written before. Returns the seconds (of perf_counter) when it was typed."""
        while select.select([self.fd], [], [], 0)[0]:
            self.read()
        self._text.clear()
        pressed = time.perf_counter()
        os.write(self.fd, keys.encode())
        return pressed

    def until(self, text: str) -> float:
        """Seconds (of perf_counter) at which *text* has been written. Raises RuntimeError where it is not."""
        wanted, deadline = text.encode(), time.perf_counter() + DEADLINE_S
        while wanted not in self._text:
            self._wait(deadline, f"{text!r} was not written")
            self._text += self.read()
        return time.perf_counter()

    def read(self) -> bytes:
        """What it has written. Raises RuntimeError where it has ended."""
        try:
            self._last = os.read(self.fd, 1 << 16)
        except OSError as gone:  # EIO: nobody has the terminal open
            raise RuntimeError(f"it has ended; the last was {self._last[-400:]!r}") from gone
        return self._last

    def drain(self, seconds: float) -> int:
        """Read for a while; how many bytes came."""
        return drain((self,), seconds)[0]

    def quit(self, key: str = "q") -> float:
        """The key that leaves, and the seconds until the process is gone."""
        before = time.perf_counter()
        deadline = before + DEADLINE_S
        with contextlib.suppress(OSError):  # EIO: it has closed the terminal
            os.write(self.fd, key.encode())
            while True:
                self._wait(deadline, "does not leave")
                os.read(self.fd, 1 << 16)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        return time.perf_counter() - before

    def _wait(self, deadline: float, what: str) -> None:
        if not select.select([self.fd], [], [], max(0.0, deadline - time.perf_counter()))[0]:
            raise RuntimeError(f"{what}; the last was {self._last[-400:]!r}")


def drain(terminals: Sequence[Terminal], seconds: float) -> list[int]:
    """Read all of them for a while; how many bytes came from each."""
    deadline, counts = time.perf_counter() + seconds, [0] * len(terminals)
    numbers = {terminal.fd: number for number, terminal in enumerate(terminals)}
    while (left := deadline - time.perf_counter()) > 0:
        for fd in select.select(list(numbers), [], [], left)[0]:
            counts[numbers[fd]] += len(terminals[numbers[fd]].read())
    return counts


def cpu_percents(groups: Sequence[Sequence[int]], during: Callable[[], object]) -> list[float]:
    """Percent of one core that each group of processes takes while *during* runs."""
    before, began = [_cpu_s(pids) for pids in groups], time.perf_counter()
    during()
    took = time.perf_counter() - began
    return [100 * (_cpu_s(pids) - then) / took for pids, then in zip(groups, before, strict=True)]


def _cpu_s(pids: Sequence[int]) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def memory_mb(terminal: Terminal) -> float:
    """Resident, with what it shares with others."""
    return psutil.Process(terminal.pid).memory_info().rss / 1e6
