"""`gpudeck` on a bare pseudo-terminal: every byte that it sends is kept, and the terminal can be slow or go away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.e2e.decks import GPUDECK
from tests.fakes.live_deck import DEADLINE_S

_TICK_S = 0.02


class PtyScreen:
    """*rate*: bytes a second that the terminal takes; 0: as fast as they come. *owns*: it is the controlling terminal,
    so that its end sends SIGHUP."""

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        *words: str,
        size: tuple[int, int] = (80, 24),
        rate: int = 0,
        owns: bool = True,
        stdout: int | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        self.received = bytearray()
        self._rate = rate
        self._reads = threading.Event()
        self._reads.set()
        self._closing = False
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._slave = slave
        self.modes_before = termios.tcgetattr(slave)
        command: Sequence[str] = (*(("setsid", "--ctty") if owns else ("setsid",)), GPUDECK, *words)
        self.process = subprocess.Popen(
            command, cwd=folder, env=dict(env), stdin=slave, stdout=stdout or slave, stderr=stderr or slave
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def freeze(self) -> None:
        """The terminal takes nothing any more."""
        self._reads.clear()

    def modes(self) -> list[object]:
        """Settings of the line, as `stty` shows them."""
        return list(termios.tcgetattr(self._slave))

    def until(self, holds: Callable[[bytes], object], what: str, since: int = 0) -> None:
        """Wait until the bytes from *since* on satisfy *holds*."""
        deadline = time.monotonic() + DEADLINE_S
        never = threading.Event()
        while not holds(bytes(self.received[since:])):
            assert time.monotonic() < deadline, f"waited in vain: {what}: {bytes(self.received[-3000:])!r}"
            never.wait(_TICK_S)

    def until_sent(self, *parts: bytes, since: int = 0) -> None:
        self.until(lambda sent: all(part in sent for part in parts), f"{parts}", since)

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(DEADLINE_S)

    def memory_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def hang_up(self) -> None:
        """The terminal emulator ends."""
        self._closing = True
        self._reads.set()
        os.close(self._slave)
        os.close(self._master)
        self._master = self._slave = -1

    def close(self) -> None:
        self._closing = True
        self._reads.set()
        self.process.kill()
        self.process.wait()
        for fd in (self._slave, self._master):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._thread.join(5)

    def _read(self) -> None:
        share = max(1, int(self._rate * _TICK_S))
        with contextlib.suppress(OSError):
            while not self._closing:
                self._reads.wait()
                data = os.read(self._master, share if self._rate else 65536)
                if not data:
                    return
                self.received += data
                if self._rate:
                    threading.Event().wait(len(data) / self._rate)
