"""The shell around every attempt, and how it is started.

The wrapper leads a session of its own, makes the record before anything runs and writes the exit code into it, so that
an engine that was away learns both. `posix_spawn` costs the engine about 0.05 ms however large it has grown, half of
`subprocess.Popen`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import signal
from collections.abc import Callable, Mapping

from ..ports import SpawnRefusedError, StartOrder

TEXT = """\
set -C; read -r u _ </proc/uptime; read -r s </proc/self/stat; printf 'start %s %s\\n' "$u" "$s" 2>/dev/null >"$1" \
|| exit 125
set +C; trap : HUP INT QUIT TERM USR1 USR2 ALRM; r=$1 d=$2 o=$3 e=$4; shift 4
end() { read -r u _ </proc/uptime; printf 'end %s %s\\n' "$1" "$u" >>"$r"; exit "$2"; }
cd -- "$d" 2>/dev/null || end spawn-cwd 125
{ true >>"$o" && true >>"$e"; } 2>/dev/null || end spawn-log 125
(exec "$@") </dev/null >>"$o" 2>>"$e" 9>&-
c=$?; end "$c" "$c"
"""
"""Signals are caught, not ignored: a shell hands ignored ones on to the command, caught ones it resets. The command is
executed, not looked up, so that names of builtins mean programs."""

SPARE_DESCRIPTORS = 16
"""For logs, the journal and /proc. An engine that has none left cannot see whether a process lives."""
UNABLE = 125
"""Exit code of a wrapper that never ran its command."""

_ENV = "/usr/bin/env"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEFAULTS = tuple(s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP))
_CANNOT = 'printf "gpudeck: %s\\n" "$1" >&2; exit 126'

_SYS_CLOSE_RANGE = 436
_CLOSE_RANGE_CLOEXEC = 4


_plain: set[str] = set()
"""Names of variables found to be identifiers: attempts of one deck have nearly all of them in common."""


def argv_of(order: StartOrder, record: str) -> tuple[list[str], Mapping[str, str]]:
    """The wrapper's arguments and environment.

    Shells drop variables whose names are no identifiers (Lmod's exported functions): `env` sets those for the command.
    """
    new = order.env.keys() - _plain
    odd = [name for name in new if not _IDENTIFIER.match(name)]
    _plain.update(new.difference(odd))
    if not odd:
        return [*_head(order, record), *order.argv], order.env
    env = {name: value for name, value in order.env.items() if name in _plain}
    said = [f"{name}={value}" for name, value in order.env.items() if name not in env]
    return [*_head(order, record), _ENV, "--", *said, *order.argv], env


class Spawner:
    """Starts wrappers. They get default signal dispositions, /dev/null as 0 to 2 and no other descriptor."""

    def __init__(self) -> None:
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._actions = [(os.POSIX_SPAWN_DUP2, self._null, fd) for fd in (0, 1, 2)]
        self._seal = _sealer()
        self._limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def spawn(self, order: StartOrder, record: str) -> int:
        """Start the wrapper and return its pid.

        A command that no kernel would take (too long, with a NUL) ends with 126 and a line on stderr. Raises
        SpawnRefusedError when no process came to be.
        """
        self._leave_descriptors()
        argv, env = argv_of(order, record)
        try:
            return self._spawn(argv, env)
        except ValueError as error:
            why = str(error)
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise SpawnRefusedError(f"cannot start a process: {error.strerror}") from error
            why = "command and environment are too long"
        argv = [*_head(order, record), "/bin/sh", "-c", _CANNOT, "gpudeck", why]
        return self._spawn(argv, {"GPUDECK_TOKEN": order.token})

    def close(self) -> None:
        """Give back the descriptor. Nothing can be started any more."""
        os.close(self._null)

    def _leave_descriptors(self) -> None:
        """The lowest free number tells how many are taken: each attempt takes one."""
        try:
            lowest = os.dup(self._null)
        except OSError as error:
            raise SpawnRefusedError(f"cannot start a process: {error.strerror}") from error
        os.close(lowest)
        if 0 <= self._limit <= lowest + SPARE_DESCRIPTORS:
            raise SpawnRefusedError(f"no more open files are allowed (ulimit -n is {self._limit})")

    def _spawn(self, argv: list[str], env: Mapping[str, str]) -> int:
        self._seal()
        return os.posix_spawn(
            "/bin/sh", argv, env, file_actions=self._actions, setsid=True, setsigmask=(), setsigdef=_DEFAULTS
        )


def _head(order: StartOrder, record: str) -> tuple[str, ...]:
    return ("sh", "-c", TEXT, "gpudeck", record, order.cwd, order.stdout, order.stderr)


def _sealer() -> Callable[[], object]:
    """A call that marks all descriptors above 2 as not inherited: drivers and callers open some without saying so."""
    syscall = ctypes.PyDLL(None).syscall
    syscall.argtypes = (ctypes.c_long, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint)
    if syscall(_SYS_CLOSE_RANGE, 3, 0xFFFFFFFF, _CLOSE_RANGE_CLOEXEC) == 0:
        return lambda: syscall(_SYS_CLOSE_RANGE, 3, 0xFFFFFFFF, _CLOSE_RANGE_CLOEXEC)
    return _seal_one_by_one


def _seal_one_by_one() -> None:
    """For kernels before 5.11."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                continue  # the descriptor of the listing itself
