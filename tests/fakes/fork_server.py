"""Forks gpudeck commands from one interpreter that has everything imported: a start costs milliseconds.

    python -m tests.fakes.fork_server SOCKET

Listens on SOCKET until stdin ends. Each connection brings one order, a JSON line, with the descriptors that become 0,
1, 2, … of the new process. The answer is {"pid": N} or {"refused": WHY}, and {"code": C} once that process has ended, C
negative for a signal. What is forked is the real command, with the seams that the order asks for; the processes that it
starts itself, an engine and the reader of logs, are forked here as well. What a killed engine leaves is this process's,
as it would be init's: it is reaped at once, which not every container's init does.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from gpudeck.cli import commands
from gpudeck.cli.main import main
from gpudeck.engine.adapters.processes.launcher import become_subreaper
from tests.fakes import engine_seams, forked, reached

Order = dict[str, Any]
_CLONE_NEWTIME = 0x80
_PR_SET_NAME = 15
_HIGHEST_FD = 256
_USED = (
    "engine.engine", "cli.run_engine", "engine.headless", "engine.decks.opening", "engine.logs.follow_main",
    "engine.decks.offline", "cli.arguments",
    *(found.name for found in iter_modules(commands.__path__, "cli.commands.")),
)  # fmt: skip


class Server:
    """One connection for each process that was forked."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"{path}.new")
        self._listening.listen(64)
        os.rename(f"{path}.new", path)  # whoever finds it can connect
        self._told: dict[int, socket.socket] = {}
        """Who is told of a process's end."""
        woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._ready = selectors.DefaultSelector()
        self._ready.register(0, selectors.EVENT_READ, "stdin")
        self._ready.register(woken, selectors.EVENT_READ, "ends")
        self._ready.register(self._listening, selectors.EVENT_READ, "order")

    def serve(self) -> Order | None:
        """Fork until stdin ends. Returns an order in the child that is to carry it out."""
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            for key, _ in self._ready.select():
                match key.data:
                    case "ends":
                        os.read(key.fd, 4096)
                        self._tell_ends()
                    case "order":
                        connection, _ = self._listening.accept()
                        if (order := self._obey(connection)) is not None:
                            self._told[0] = connection
                            return order
                    case _:
                        if not os.read(0, 4096):
                            return None

    def _obey(self, connection: socket.socket) -> Order | None:
        try:
            text, fds = forked.receive(connection)
            order = json.loads(text)
        except (OSError, ValueError):  # whoever asked has been killed
            connection.close()
            return None
        try:
            pid = fork(order)
        except OSError as error:
            pid = -1
            forked.say(connection, {"refused": str(error)})
        if pid == 0:
            return {**order, "fds": fds}
        for fd in fds:
            os.close(fd)
        if pid > 0:
            self._told[pid] = connection
            forked.say(connection, {"pid": pid})
        else:
            connection.close()
        return None

    def _tell_ends(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if connection := self._told.pop(pid, None):
                forked.say(connection, {"code": os.waitstatus_to_exitcode(status)})
                connection.close()


def fork(order: Order) -> int:
    """os.fork; the child finds a box that has been up for `up_s`, where that is not 0, and is led by nobody if it is
    `detached`. Returns once the child has closed what is the server's. Raises OSError where the kernel or a lack of
    rights do not allow it."""
    open_there, open_here = os.pipe()
    pid = -1
    try:
        if up_s := order.get("up_s"):
            pid = _fork_in_time(up_s)
        else:
            pid = _fork_detached() if order.get("detached") else os.fork()
    finally:
        if pid:
            os.close(open_here)
            os.read(open_there, 1)
            os.close(open_there)
    return pid


def _fork_detached() -> int:
    read, write = os.pipe()
    if leader := os.fork():
        os.close(write)
        pid = int.from_bytes(os.read(read, 8), "little")
        os.close(read)
        os.waitpid(leader, 0)
        return pid
    os.setsid()
    if pid := os.fork():
        os.write(write, pid.to_bytes(8, "little"))
        os._exit(0)
    return 0


def _fork_in_time(up_s: float) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    ours = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    if libc.unshare(_CLONE_NEWTIME):
        raise OSError(ctypes.get_errno(), "a time namespace cannot be made")
    with open("/proc/self/timens_offsets", "w") as offsets:
        offsets.write(f"boottime {-int(time.clock_gettime(time.CLOCK_BOOTTIME) - up_s)} 0")
    pid = os.fork()
    if pid:
        libc.setns(ours, _CLONE_NEWTIME)
    os.close(ours)
    return pid


def become(order: Order, server: str) -> int:
    """Turn this process into the command that *order* asks for; returns its exit code."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not order.get("detached"):
        os.setsid()
    high = [os.dup2(fd, _HIGHEST_FD + number) for number, fd in enumerate(order["fds"])]
    os.closerange(0, _HIGHEST_FD)
    for number, fd in enumerate(high):
        os.dup2(fd, number, inheritable=number < 3)
        os.close(fd)
    if order.get("tty"):
        os.close(os.open(order["tty"], os.O_RDWR))  # a session's first terminal becomes its controlling one
    sys.stdin = sys.__stdin__ = open(0)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w")  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    os.chdir(order["cwd"])
    os.umask(order["umask"])
    map_folder = os.environ.get(reached.VARIABLE)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    obey_environment()
    if library := os.environ.get(forked.NVML_LIBRARY):
        ctypes.CDLL(library)
    seams = order.get("seams", forked.QUICK)
    forked.fork_what_gpudeck_starts(server, {name: seams[name] for name in forked.HANDED_ON if name in seams})
    reached.record(map_folder)
    engine_seams.install(seams)
    sys.argv = ["gpudeck", *order["argv"]]
    gc.enable()
    if order.get("main") is None:
        return main(order["argv"])
    ctypes.CDLL(None).prctl(_PR_SET_NAME, order["main"].rpartition(".")[2].encode())
    import_module(order["main"]).main()
    return 0


def obey_environment() -> None:
    """What the loader and the interpreter do at a start, as far as `forked.can_fork` promises it."""
    if (library := Path(os.environ.get("LD_LIBRARY_PATH", "/"), forked.DRIVER)).exists():
        ctypes.CDLL(str(library))  # pynvml loads it by its soname, which the loader then finds among the loaded ones
    if os.environ.get("PYTHONPATH") == forked.NETWORK:
        runpy.run_path(f"{forked.NETWORK}/sitecustomize.py")


def end(code: int) -> None:
    """As the interpreter ends, but its memory is let go as it is."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    os._exit(code)


def run(path: str) -> None:
    """Serve at *path*."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whichever thread starts it may have blocked them all
    for name in _USED:
        import_module(f"gpudeck.{name}")
    become_subreaper()
    gc.collect()
    gc.disable()
    gc.freeze()
    server = Server(path)  # kept in every fork: its descriptors are other things there, which it would close at its end
    asked = server.serve()
    if asked is None:
        return
    try:
        code = become(asked, path)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else bool(error.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    end(code)


if __name__ == "__main__":
    run(sys.argv[1])
