"""Starts a process that outlives the terminal, the shell and whoever started it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from ..errors import EngineUnavailableError
from .linger import Logout, look

_HELPER = """\
import os, signal, sys
log, *argv = sys.argv[1:]
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
report = os.dup(1)
try:
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    pid = os.fork()
    if pid:
        os.write(report, b"%d\\n" % pid)
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.execvp(argv[0], argv)
except OSError as error:
    os.write(report, os.fsencode(f"{error.filename or argv[0]}: {error.strerror}"))
    os._exit(1)
"""
"""Runs in a session of its own and leaves it to its child: that one is nobody's zombie and, leading no session, can
never get a terminal. A process and not a fork of the caller, which may have threads and gets no copy of its locks."""

_SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "--collect")
_SCOPE_PROPERTIES = (("-p", "TasksMax=infinity", "-p", "OOMPolicy=continue"), ("-p", "TasksMax=infinity"))
"""The second for systemd before 253, whose scopes know no OOMPolicy."""
_PATIENCE_S = 10.0


def start_detached(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    log_path: str,
    warn: Callable[[str], object] | None = None,
    logout: Logout | None = None,
) -> int:
    """Start *argv* so that it lives on without us; returns its pid.

    It gets a session without a terminal, /dev/null as stdin, *log_path* (made 0600) appended to as stdout and stderr,
    no other descriptor, default signals, and our umask, limits and priority. Where a logout would end it, it is started
    in a systemd scope of its own; *warn* gets a line where it will end all the same. *logout*: what a logout does here,
    default: looked up. Takes about 20 ms. Raises EngineUnavailableError when it cannot be started.
    """
    logout = logout or look()
    prefix = _scope(env) if logout.ends_with_session else ()
    stays = prefix and logout.lingers
    if logout.hint and not stays and warn is not None:
        warn(logout.hint)
    return _start([*prefix, *argv], cwd, env, log_path)


def _start(argv: Sequence[str], cwd: str, env: Mapping[str, str], log_path: str) -> int:
    helper = [sys.executable, "-I", "-S", "-c", _HELPER, os.path.abspath(log_path), *argv]
    try:
        done = subprocess.run(
            helper,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        raise EngineUnavailableError(f"cannot start {argv[0]}: {error.filename or cwd}: {error.strerror}") from error
    # The pipe ends when the command is executed; what follows the pid is why it was not.
    pid, _, trouble = os.fsdecode(done.stdout).partition("\n")
    if done.returncode or trouble or not pid.isdecimal():
        raise EngineUnavailableError(f"cannot start {argv[0]}: {trouble or pid or 'no process came to be'}")
    return int(pid)


def _scope(env: Mapping[str, str]) -> tuple[str, ...]:
    """What goes before a command so that it runs in a scope of the user's service manager; () where that fails."""
    for properties in _SCOPE_PROPERTIES:
        prefix = (*_SCOPE, *properties, "--")
        try:
            probe = subprocess.run(
                [*prefix, "true"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ()
        if probe.returncode == 0:
            return prefix
    return ()
