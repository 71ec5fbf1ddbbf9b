"""Processes of the fork server, for those who start them: `Forked` is to them what `subprocess.Popen` is to others."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Of the fork server: that of the tests, before any of them has changed it; see conftest."""
_MOST_FDS = 8
NVML_LIBRARY = "GPUDECK_NVML_LIBRARY"
"""Names a library that every fork finds in the place of libnvidia-ml: LD_LIBRARY_PATH comes too late for them."""
_DECIDED_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""What such variables say is decided before a program runs: a fork of another one cannot obey."""
DRIVER = "libnvidia-ml.so.1"
"""But LD_LIBRARY_PATH that leads to a double of the driver,"""
NETWORK = str(ROOT / "tests/fakes/network_mount")
"""and PYTHONPATH that makes folders lie on a file server."""
QUICK: Mapping[str, Any] = {
    "constants": {
        "gpudeck.engine.sampler:PERIOD_S": 0.1,
        "gpudeck.engine.sampler:HOST_PERIOD_S": 0.2,
        "gpudeck.engine.taking:LOOK_S": 0.4,
        "gpudeck.engine.adapters.nvml.device:_FIRST_RETRY_S": 0.2,
        "gpudeck.engine.adapters.journal.journal:RETRY_S": 0.1,
        "gpudeck.engine.live.looking:SETTLE_S": 0.05,
        "gpudeck.engine.live.live_file:LOOK_S": 0.1,
        "gpudeck.engine.live.watch:POLL_S": 0.1,
        "gpudeck.engine.live.watch:_GROUP_MS": 20,
        "gpudeck.engine.live.watch:_STEP_MS": 10,
        "gpudeck.engine.serve.server:_LOOK_EVERY_S": 0.2,
        "gpudeck.engine.serve.pictures:_LOOK_EVERY_S": 0.1,
        "gpudeck.engine.notify.sender:GATHER_S": 0.1,
        "gpudeck.engine.state_watch:_LOOK_EVERY_S": 0.2,
        "gpudeck.engine.core.attempts:REFUSED_WAIT_S": 0.2,
        "gpudeck.engine.core.step:REFUSED_WAIT_S": 0.2,
    }
}
"""Seams of what is forked without others: engines that look around them more often than users need."""
HANDED_ON = ("constants", "host")
"""Seams that hold for what a forked process starts, too."""


def tuned(seams: Mapping[str, Any], module: str, **constants: Any) -> dict[str, Any]:
    """*seams*, and such constants of a module below gpudeck."""
    more = {f"gpudeck.{module}:{name}": value for name, value in constants.items()}
    return {**seams, "constants": {**seams.get("constants", {}), **more}}


class Forked:
    """One forked process."""

    def __init__(
        self,
        server: str,
        argv: Sequence[str],
        *,
        cwd: str | Path,
        env: Mapping[str, str],
        fds: Sequence[int],
        **order: Any,
    ) -> None:
        """*fds*: what becomes its descriptors 0, 1, 2, …; *order*: more of what `fork_server` takes."""
        self.args = list(argv)
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._lock = threading.Lock()
        self._text = b""
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(server)
        order |= {"argv": list(argv), "cwd": str(cwd), "env": dict(env), "umask": _umask()}
        text = json.dumps(order).encode() + b"\n"
        socket.send_fds(self._connection, [text[:1]], list(fds))
        self._connection.sendall(text[1:])
        answer = self._answer(START_S)
        assert answer is not None, "the fork server forks nothing"
        assert "pid" in answer, f"cannot be started so here: {answer['refused']}"
        self.pid: int = answer["pid"]

    def poll(self) -> int | None:
        """Its exit code; negative for a signal; None while it lives. Another thread may be in `wait`."""
        if not self._lock.acquire(blocking=False):
            return self.returncode
        try:
            return self._code(0.0)
        finally:
            self._lock.release()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its code. Raises subprocess.TimeoutExpired."""
        with self._lock:
            code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _code(self, timeout: float | None) -> int | None:
        if self.returncode is None and (answer := self._answer(timeout)):
            self.returncode = answer["code"]
            self._connection.close()
        return self.returncode

    def _answer(self, timeout: float | None) -> dict[str, Any] | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._text:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = select.poll()
            ready.register(self._connection, select.POLLIN)
            if not ready.poll(None if left is None else left * 1000):
                return None
            data = self._connection.recv(65536)
            assert data, "the fork server has ended"
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        return json.loads(line)


def _umask() -> int:
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """An order and its descriptors, in the server."""
    text, fds, _, _ = socket.recv_fds(connection, 1, _MOST_FDS)
    while text and not text.endswith(b"\n"):
        data = connection.recv(1 << 20)
        if not data:
            break
        text += data
    return text, fds


def say(connection: socket.socket, answer: Mapping[str, Any]) -> None:
    """Answer whoever asked, in the server."""
    with contextlib.suppress(OSError):  # it may be gone
        connection.sendall(json.dumps(answer).encode() + b"\n")


class _Server:
    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="gd-forks-")
        self.path = os.path.join(self._folder, "s")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fakes.fork_server", self.path],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            env=_ENVIRONMENT,
        )
        deadline = time.monotonic() + START_S
        while not os.path.exists(self.path):
            assert self._process.poll() is None, "the fork server does not start"
            assert time.monotonic() < deadline, "the fork server does not listen"
            time.sleep(0.005)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(START_S)
        shutil.rmtree(self._folder, ignore_errors=True)


@functools.cache
def _server() -> _Server:
    return _Server()


def close_server() -> None:
    """End it, if there is one."""
    if _server.cache_info().currsize:
        _server().close()
        _server.cache_clear()


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a fork can run under these variables."""
    differs = {name for name in {*env, *_ENVIRONMENT} if env.get(name) != _ENVIRONMENT.get(name)}
    if Path(env.get("LD_LIBRARY_PATH", "/"), DRIVER).exists():
        differs.discard("LD_LIBRARY_PATH")
    if env.get("PYTHONPATH") == NETWORK:
        differs.discard("PYTHONPATH")
    return not any(name.startswith(_DECIDED_AT_START) for name in differs)


def fork(argv: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], fds: Sequence[int], **order: Any) -> Forked:
    """Start `gpudeck` with these words."""
    return Forked(_server().path, argv, cwd=cwd, env=env, fds=fds, **order)


def popen(
    argv: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], merged: bool = False, **order: Any
) -> Forked:
    """Start `gpudeck` with its output in pipes, as text; *merged*: one for both."""
    pipes = [os.pipe() for _ in range(1 if merged else 2)]
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        started = fork(argv, cwd=cwd, env=env, fds=[null, pipes[0][1], pipes[-1][1]], **order)
    finally:
        os.close(null)
        for _, write in pipes:
            os.close(write)
    started.stdout = os.fdopen(pipes[0][0])
    started.stderr = None if merged else os.fdopen(pipes[1][0])
    return started


def run(
    argv: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], timeout: float, **order: Any
) -> subprocess.CompletedProcess[bytes]:
    """`gpudeck` with these words, to its end. Raises subprocess.TimeoutExpired."""
    with open(os.devnull, "rb") as null, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = fork(argv, cwd=cwd, env=env, fds=[null.fileno(), out.fileno(), err.fileno()], **order)
        try:
            code = started.wait(timeout)
        finally:
            started.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read(), err.read())


_COMMAND = """\
#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
mask = os.umask(0)
order = json.dumps(dict(argv=sys.argv[1:], cwd=os.getcwd(), env=dict(os.environ), umask=mask)).encode()
socket.send_fds(server, [order[:1]], [0, 1, 2])
server.sendall(order[1:] + b"\\n")
_pid, code = (json.loads(line) for line in server.makefile())
sys.exit(code["code"] if code["code"] >= 0 else 128 - code["code"])
"""


def write_command(path: Path) -> None:
    """A program that is `gpudeck` to a shell: it waits for one that is forked. Signals to it end it alone."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(_COMMAND.format(python=sys.executable, path=_server().path))
    path.chmod(0o755)


# -- within what was forked


def fork_what_gpudeck_starts(server: str = "", seams: Mapping[str, Any] | None = None) -> None:
    """From now on this process has its engines and readers of logs forked, with *seams* (default `QUICK`). *server*:
    default this process's own."""
    seams = QUICK if seams is None else seams
    from gpudeck.engine.client import detach
    from gpudeck.engine.logs import helper

    start = detach._start
    ours = [sys.executable, "-P", "-m", "gpudeck"]

    def fork_engine(argv: Sequence[str], cwd: str, env: Mapping[str, str], log_path: str) -> int:
        if list(argv[:4]) != ours or not (server or can_fork(env)):
            return start(argv, cwd, env, log_path)
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            path = server or _server().path
            fds = [null, log, log]
            return Forked(path, argv[4:], cwd=cwd, env=env, fds=fds, detached=True, seams=seams).pid
        finally:
            os.close(null)
            os.close(log)

    detach._start = fork_engine
    if server:
        helper.subprocess = ForkedReaders(server, seams)  # type: ignore[assignment]


class ForkedReaders:
    """`subprocess`, as far as the reader of logs needs it."""

    PIPE, DEVNULL, TimeoutExpired = subprocess.PIPE, subprocess.DEVNULL, subprocess.TimeoutExpired

    def __init__(self, server: str = "", seams: Mapping[str, Any] | None = None) -> None:
        """*server*: default this process's own; *seams*: default `QUICK`."""
        self._server = server or _server().path
        self._order = {"seams": QUICK if seams is None else seams}

    def Popen(self, argv: Sequence[str], *, pass_fds: Sequence[int], cwd: str, **_: Any) -> Forked:  # noqa: N802
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        given = [read_in, write_out, null]
        *_python, module, _fd, store = argv
        try:
            fds = [*given, *pass_fds]
            started = Forked(self._server, ["3", store], cwd=cwd, env=os.environ, fds=fds, main=module, **self._order)
        finally:
            for fd in given:
                os.close(fd)
        started.stdin, started.stdout = os.fdopen(write_in, "wb", 0), os.fdopen(read_out, "rb", 0)
        return started
