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

from ...ports import SpawnRefusedError, StartOrder
from ..claims.file import WRAPPER_FD

TEXT = """\
umask 77; set -C; read -r u _ </proc/uptime; printf 'start %s %s\\n' "$u" "$$" 2>/dev/null >"$1" || exit 125
umask UMASK; set +C; trap : HUP INT QUIT TERM USR1 USR2 ALRM; r=$1 d=$2 o=$3 e=$4 l=$5; shift 5; command exec 8>>"$r"
end() { trap - EXIT; read -r u _ </proc/uptime; u="end $1 $u"; echo "$u" >&8
[ "$r" -ef /proc/$$/fd/8 ] || echo "$u" >>"$r"; exit "$2"; }
cd -- "$d" 2>/dev/null || end spawn-cwd 125
{ true >>"$o" && true >>"$e"; } 2>/dev/null || end spawn-log 125
trap 'end spawn-fork 125' EXIT
([ "$l" = wait ] || exec 9>&-; exec "$@") </dev/null >>"$o" 2>>"$e" 8>&-
c=$?; end "$c" "$c"
"""
"""Signals are caught, not ignored: a shell hands ignored ones on to the command, caught ones it resets. The command is
executed, not looked up, so that names of builtins mean programs; in a subshell of its own, so that "Killed" is not said
into its stderr. A shell that cannot fork ends by itself, which the trap on EXIT tells from an end of the command. dash
reads byte by byte: what it has to read is kept short. The record is its owner's alone, and the command gets the umask
that the engine was started with. It stays open, so that the end is written into it wherever its folder was moved to;
where it was removed another takes its place."""

SPARE_DESCRIPTORS = 16
"""For logs, the journal and /proc. An engine that has none left cannot see whether a process lives."""
UNABLE = 125
"""Exit code of a wrapper that never ran its command."""
NO_FORK = "no more processes are allowed (ulimit -u, pids.max of its cgroup)"

_SHELL = "/bin/sh"
_ENV = "/usr/bin/env"
_IDENTIFIER = re.compile(r"(?![cdeloru]\Z)[A-Za-z_][A-Za-z0-9_]*\Z")
"""Not the names that the wrapper itself uses: exported to it, its values would reach the command."""
_DEFAULTS = tuple(s for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP))
_CANNOT = 'printf "gpudeck: %s\\n" "$1" >&2; exit 126'

RAISED_BY = 100
"""More than an engine uses of any box's memory; little beside a training run's own, so that on a shared box tasks are
not sacrificed for somebody else's."""

_HIGHEST_OOM = 1000
_OOM_PATH = "/proc/self/oom_score_adj"

_SYS_CLOSE_RANGE = 436
_CLOSE_RANGE_CLOEXEC = 4


_plain: set[str] = set()
"""Names of variables found to be identifiers: attempts of one deck have nearly all of them in common."""


def arguments_of(order: StartOrder, record: str) -> tuple[list[str], Mapping[str, str]]:
    """The wrapper's arguments, from the record's path on, and its environment.

    Shells drop variables whose names are no identifiers (Lmod's exported functions), and the wrapper sets some itself:
    `env` sets those for the command.
    """
    new = order.env.keys() - _plain
    odd = [name for name in new if not _IDENTIFIER.match(name)]
    _plain.update(new.difference(odd))
    if not odd:
        return [*_own_arguments(order, record), *order.argv], order.env
    env = {name: value for name, value in order.env.items() if name in _plain}
    said = [f"{name}={value}" for name, value in order.env.items() if name not in env]
    return [*_own_arguments(order, record), _ENV, "--", *said, *order.argv], env


def _own_arguments(order: StartOrder, record: str) -> tuple[str, ...]:
    return record, order.cwd, order.stdout, order.stderr, order.leftovers


def _refused(error: OSError) -> SpawnRefusedError:
    """What the kernel's refusal of a process is told as."""
    return SpawnRefusedError(NO_FORK if error.errno == errno.EAGAIN else f"cannot start a process: {error.strerror}")


class Spawner:
    """Starts wrappers. They get default signal dispositions, /dev/null as 0 to 2 and, where GPUs are claimed for them,
    the claims as 9; no other descriptor."""

    def __init__(self) -> None:
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._actions = [(os.POSIX_SPAWN_DUP2, self._null, fd) for fd in (0, 1, 2)]
        self._seal = _sealer()
        self._children_first = ChildrenFirst()
        self._text = wrapper_text()
        self._limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def spawn(self, order: StartOrder, record: str, claims: int | None = None) -> int:
        """Start the wrapper and return its pid. *claims*: a descriptor that it keeps; its command gets it where what
        it leaves is waited for, and so belongs to the attempt.

        A command that no kernel would take (too long, with a NUL) ends with 126 and a line on stderr. Raises
        SpawnRefusedError when no process came to be.
        """
        self._leave_descriptors()
        try:
            arguments, env = arguments_of(order, record)
            return self._spawn(arguments, env, claims)
        except ValueError as error:
            why = str(error)
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise _refused(error) from error
            why = "command and environment are too long"
        try:
            arguments = [*_own_arguments(order, record), "/bin/sh", "-c", _CANNOT, "gpudeck", why]
            return self._spawn(arguments, {"GPUDECK_TOKEN": order.token}, claims)
        except OSError as error:
            raise _refused(error) from error

    def close(self) -> None:
        """Give back the descriptors. Nothing can be started any more."""
        os.close(self._null)
        self._children_first.close()

    def _leave_descriptors(self) -> None:
        """The lowest free number tells how many are taken: each attempt takes one."""
        try:
            lowest = os.dup(self._null)
        except OSError as error:
            raise _refused(error) from error
        os.close(lowest)
        if 0 <= self._limit <= lowest + SPARE_DESCRIPTORS:
            raise SpawnRefusedError(f"no more open files are allowed (ulimit -n is {self._limit})")

    def _spawn(self, arguments: list[str], env: Mapping[str, str], claims: int | None) -> int:
        self._seal()
        argv = ["sh", "-c", self._text, "gpudeck", *arguments]
        actions = self._actions
        if claims is not None:
            actions = [*actions, (os.POSIX_SPAWN_DUP2, claims, WRAPPER_FD)]
        with self._children_first:
            return os.posix_spawn(
                _SHELL, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULTS
            )


class ChildrenFirst:
    """`with children_first:` around the start of a process makes it and all that it starts go before this process when
    memory runs out.

    The kernel adds a process's oom_score_adj, in thousandths of the memory, to what it uses. It is inherited by
    children, and nobody but root may set it below what a service manager gave: tasks are raised, the engine stays.

    Costs 2 µs a start; writing to a child's file costs three times that and comes too late for what it has forked by
    then. Does nothing where the kernel does not let us.
    """

    def __init__(self, path: str = _OOM_PATH) -> None:
        self._fd = -1
        self._own = self._raised = b""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return
        try:
            own = int(os.pread(fd, 16, 0))
            self._own, self._raised = b"%d" % own, b"%d" % min(_HIGHEST_OOM, own + RAISED_BY)
            os.pwrite(fd, self._own, 0)  # whether we may return to it
        except (OSError, ValueError):
            os.close(fd)
            return
        self._fd = fd

    def __enter__(self) -> None:
        if self._fd >= 0:
            os.pwrite(self._fd, self._raised, 0)

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.pwrite(self._fd, self._own, 0)

    def close(self) -> None:
        """Give back the descriptor; nothing is raised any more. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def wrapper_text() -> str:
    """What the shell runs. /proc tells this process's umask: umask(2) would have to change it, under threads that make
    files."""
    with open("/proc/self/status", "rb") as file:
        told = file.read().partition(b"\nUmask:")[2].split(None, 1)
    return TEXT.replace("UMASK", told[0].decode() if told else "22")


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
