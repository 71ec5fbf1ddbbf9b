"""A terminal that outlives whoever sits at it: holds the pty of a command that `gpudeck run -i` runs.

    python -m gpudeck.engine.adapters.processes.terminal STATE -- CMD …

is the task's process. It starts CMD on a pty of its own, writes what comes from there to standard output, the task's
log, and lets one client at a time sit at it, by a socket in the state folder. Its exit code is the command's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from ..state.sockets import Listener, connect, listen

KEYS, SIZE = b"k", b"s"
"""What a client sends: a letter, the length of what follows in two bytes, and that. The size: rows, columns."""
_HEAD = struct.Struct("!cH")
_SIZE = struct.Struct("!HH")
_FIRST_SIZE = (24, 80)
_BLOCK = 65536
LAST_BYTES = 4096
"""So much of what was written before it sat down a client is shown."""
_BEHIND_BYTES = 1 << 20
"""A client that is so far behind is sent away: it must not hold the command up."""
_TYPED_BYTES = 1 << 16
"""While the command has so much still to read, a client is not listened to."""
_DRAIN_S = 1.0
"""So long what a command has left in the background may go on to write after its end."""
HANG_UP_S = 5.0
"""After a signal the command has this long; then its terminal hangs up, which ends shells, too."""


def folder_of(state: str, task: str) -> str:
    """Where the socket of a task's terminal lies; *state*: of its deck."""
    return os.path.join(state, "terminals", blake2b(task.encode(), digest_size=8).hexdigest())


_MODULE = ("-I", "-m", "gpudeck.engine.adapters.processes.terminal")


def command_of(state: str, words: Sequence[str]) -> list[str]:
    """What runs *words* on a terminal."""
    return [sys.executable, *_MODULE, state, "--", *words]


def is_on_terminal(command: str | Sequence[str]) -> bool:
    """Whether `command_of` has made it: what it writes is a person's session."""
    return tuple(command[1:4]) == _MODULE


def as_typed(command: Sequence[str]) -> Sequence[str]:
    """What runs on the terminal, of a command that `command_of` has made; any other as it is."""
    return command[len(_MODULE) + 3 :] if is_on_terminal(command) else command


def sit_down(state: str, task: str) -> socket.socket:
    """To the terminal of a task. Raises OSError where there is none."""
    folder = folder_of(state, task)
    with os.scandir(folder) as found:
        names = [entry.name for entry in found if entry.name.endswith(".sock")]
    if not names:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    return connect(os.path.join(folder, names[0]))


def frames(kind: bytes, data: bytes) -> Iterator[bytes]:
    """As a client sends it."""
    for at in range(0, len(data), _BLOCK - 1):
        part = data[at : at + _BLOCK - 1]
        yield _HEAD.pack(kind, len(part)) + part


def size_frame(rows: int, columns: int) -> bytes:
    return b"".join(frames(SIZE, _SIZE.pack(rows, columns)))


class Terminal:
    """One command on its pty."""

    def __init__(self, words: Sequence[str], listener: Listener) -> None:
        self._listener = listener
        self._client: socket.socket | None = None
        self._heard = b""
        self._unsent = b""
        self._typed = b""
        self._last = b""
        self._hang_up_at: float | None = None
        self._dry = False
        """Nobody has the terminal open any more, and the command lives."""
        self._told, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(told)
        self._numbers: list[int] = []
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            _become(words)
        os.set_blocking(self._master, False)
        self._resize(*_FIRST_SIZE)

    def run(self) -> int:
        """Until the command ends. Returns how, as `os.waitpid` does."""
        while True:
            self._wait()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                until = time.monotonic() + _DRAIN_S
                while self._pass_on() and time.monotonic() < until:
                    pass
                self._leave()
                return status

    def _wait(self) -> None:
        left_s = None if self._hang_up_at is None else max(0.0, self._hang_up_at - time.monotonic())
        poll = select.poll()
        for fd in (self._told, self._listener.socket.fileno()):
            poll.register(fd, select.POLLIN)
        if not self._dry:
            poll.register(self._master, select.POLLIN | (select.POLLOUT if self._typed else 0))
        if self._client is not None:
            listens = select.POLLIN if len(self._typed) < _TYPED_BYTES else 0
            poll.register(self._client.fileno(), listens | (select.POLLOUT if self._unsent else 0))
        ready = dict(poll.poll(None if left_s is None else int(left_s * 1000) + 1))
        if self._told in ready:
            self._obey()
        if self._hang_up_at is not None and time.monotonic() >= self._hang_up_at:
            self._hang_up_at = None
            self._signal(signal.SIGHUP, signal.SIGCONT)
        if self._client is not None and ready.get(self._client.fileno(), 0):
            self._hear()
        if self._listener.socket.fileno() in ready:
            self._welcome()
        events = ready.get(self._master, 0)
        if events & select.POLLOUT:
            self._type()
        if events & ~select.POLLOUT:
            self._dry = not self._pass_on()

    def _pass_on(self) -> bool:
        """Some of what was written. False: there is none."""
        if not select.select([self._master], [], [], 0)[0]:
            return False
        try:
            data = os.read(self._master, _BLOCK)
        except OSError:  # EIO: all that had it open have closed it
            return False
        with contextlib.suppress(OSError):  # a full disk is no reason to end a session
            _write_all(1, data)
        self._last = (self._last + data)[-LAST_BYTES:]
        self._send(data)
        return bool(data)

    # -- who sits at it -----------------------------------------------------------------------------------------------

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._listener.socket.accept()
            self._leave()  # whoever comes takes the place of who was there
            client.setblocking(False)
            self._client, self._heard, self._unsent = client, b"", b""
            self._send(self._last)

    def _leave(self) -> None:
        if self._client is not None:
            if self._unsent:
                with contextlib.suppress(OSError):
                    self._client.settimeout(1.0)
                    self._client.sendall(self._unsent)
            self._client.close()
            self._client = None

    def _send(self, data: bytes) -> None:
        if self._client is None:
            return
        self._unsent += data
        try:
            self._unsent = self._unsent[self._client.send(self._unsent) :]
        except BlockingIOError:
            if len(self._unsent) > _BEHIND_BYTES:
                self._unsent = b""
                self._leave()
        except OSError:
            self._unsent = b""
            self._leave()

    def _hear(self) -> None:
        if self._unsent:
            self._send(b"")
        client = self._client
        if client is None:
            return
        try:
            data = client.recv(_BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._unsent = b""
            self._leave()
            return
        self._heard += data
        while len(self._heard) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._heard)
            if len(self._heard) < _HEAD.size + length:
                return
            said = self._heard[_HEAD.size : _HEAD.size + length]
            self._heard = self._heard[_HEAD.size + length :]
            if kind == SIZE and length == _SIZE.size:
                self._resize(*_SIZE.unpack(said))
            elif kind == KEYS:
                self._typed += said
                self._type()

    def _type(self) -> None:
        """As much as the command takes."""
        try:
            self._typed = self._typed[os.write(self._master, self._typed) :] if self._typed else b""
        except BlockingIOError:
            return
        except OSError:  # nobody has the terminal open
            self._typed = b""

    # -- the command --------------------------------------------------------------------------------------------------

    def _note(self, number: int, _: object) -> None:
        self._numbers.append(number)

    def _obey(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._told, 64):
                pass
        while self._numbers:
            number = self._numbers.pop(0)
            if number != signal.SIGCHLD:
                self._signal(number)
                self._hang_up_at = self._hang_up_at or time.monotonic() + HANG_UP_S

    def _signal(self, *numbers: int) -> None:
        """To whoever has the terminal, and to the command."""
        groups = {self.pid}
        with contextlib.suppress(OSError):
            groups.add(os.tcgetpgrp(self._master))
        for group in groups - {0}:
            for number in numbers:
                with contextlib.suppress(OSError):
                    os.killpg(group, number)

    def _resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _become(words: Sequence[str]) -> None:
    """In the child: its session, and its controlling terminal, are its own already."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(words[0], list(words))
    except FileNotFoundError:
        code = 127
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
        code = 126
    else:
        return
    os._exit(code)


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            select.select([], [fd], [])


def main() -> None:
    state, _, *words = sys.argv[1:]
    folder = folder_of(state, os.environ.get("GPUDECK_TASK", ""))
    os.makedirs(folder, 0o700, exist_ok=True)
    listener = listen(folder, folder=folder)
    try:
        status = Terminal(words, listener).run()
    finally:
        listener.close()
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
    sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
