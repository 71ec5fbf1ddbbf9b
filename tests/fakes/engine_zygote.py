"""Forks gpudeck commands from one interpreter that has everything imported: a start costs milliseconds.

Reads orders on stdin, a JSON object a line, and answers each with {"pid": N} or {"refused": WHY}; every end is told by
{"ended": N, "code": C}, C negative for a signal. What is forked is the real command in a session of its own, with the
seams that the order asks for. What a killed engine leaves is this process's, as it would be init's: it is reaped at
once, which not every container's init does.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any

import gpudeck.engine.engine
import gpudeck.engine.headless
import gpudeck.engine.main
import gpudeck.engine.opening.opening
import gpudeck.tui.shell.arguments  # noqa: F401
from gpudeck.engine.adapters.processes.launcher import become_subreaper
from gpudeck.tests.fakes import engine_seams
from gpudeck.tui.cli import main

Order = dict[str, Any]
_CLONE_NEWTIME = 0x80
_HIGHEST_FD = 256


def serve() -> Order | None:
    """Fork until stdin ends. Returns an order in the child that is to carry it out."""
    become_subreaper()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    text = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends()
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                return None
            *lines, text = (text + data).split(b"\n")
            for line in lines:
                order = json.loads(line)
                try:
                    pid = fork(order["up_s"])
                except OSError as error:
                    _say({"refused": str(error)})
                    continue
                if pid == 0:
                    return order
                _say({"pid": pid})


def fork(up_s: float) -> int:
    """os.fork; the child finds a box that has been up for so long, or for as long as it is with 0. Raises OSError where
    the kernel or a lack of rights do not allow it."""
    if not up_s:
        return os.fork()
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


def _tell_ends() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(answer: Order) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def become(order: Order) -> int:
    """Turn this process into the command that *order* asks for; returns its exit code."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.closerange(3, _HIGHEST_FD)
    if order["tty"]:
        streams = [os.open(order["tty"], os.O_RDWR)] * 3  # a session's first terminal becomes its controlling one
    else:
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        streams = [os.open(os.devnull, os.O_RDONLY), os.open(order["out"], append), os.open(order["err"], append)]
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, _HIGHEST_FD)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    engine_seams.install(order["seams"])
    return main(order["argv"])


if __name__ == "__main__":
    asked = serve()
    sys.exit(0 if asked is None else become(asked))
