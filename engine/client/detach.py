"""Starts a process that outlives the terminal, the shell and whoever started it."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..adapters.host import names_in, read_text
from ..adapters.programs import NOT_BEGUN, run_program
from ..errors import EngineUnavailableError

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
    logout = logout or look_at_logout()
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
        answer = run_program([*prefix, "true"], env, timeout_s=_PATIENCE_S)
        if answer.ok:
            return prefix
        if answer.code in (None, NOT_BEGUN):
            break
    return ()


Place = Literal["session", "manager", "elsewhere"]

_CONFIG_ROOTS = ("etc", "run", "usr/local/lib", "usr/lib")
"""The first one that has a file wins it."""
_SESSION = re.compile(r"/session-[^/]+\.scope(/|$)")
_MANAGER = re.compile(r"/user@\d+\.service(/|$)")
_TRUE = frozenset({"1", "yes", "y", "true", "t", "on"})


@dataclass(frozen=True, slots=True)
class Logout:
    """What the user's logouts mean for a process."""

    place: Place
    """Whether it belongs to a login session, to the user's service manager, or to neither (containers, cron)."""
    kills: bool
    """Whether logind ends a session's processes with the session (KillUserProcesses)."""
    lingers: bool
    """Whether the user's service manager stays after the last logout."""
    user: str = ""

    @property
    def ends_with_session(self) -> bool:
        """Whether a process that stays where it is ends at the logout from its session."""
        return self.place == "session" and self.kills

    @property
    def hint(self) -> str:
        """One line for a user whose processes end; "" for others."""
        if self.ends_with_session or (self.place == "manager" and not self.lingers):
            return f"your processes end when you log out: {self.remedy}"
        return ""

    @property
    def remedy(self) -> str:
        """The command that lets the user's processes stay."""
        return f"loginctl enable-linger {self.user}".rstrip()


def look_at_logout(*, root: str = "/", user: str | None = None, cgroup: str = "/proc/self/cgroup") -> Logout:
    """Read what holds for *user* (default: ours). *root* is where the system's folders lie, *cgroup* the file that
    tells where this process belongs. Where systemd does not run nothing ends."""
    name = user or _user()
    if not os.path.isdir(os.path.join(root, "run/systemd/system")):
        return Logout("elsewhere", kills=False, lingers=False, user=name)
    return Logout(_place(read_text(cgroup)), kills=kills_processes(root, name), lingers=lingers(root, name), user=name)


def lingers(root: str, user: str) -> bool:
    """Whether logind keeps *user*'s service manager. Its files are named as it escapes names."""
    return os.path.exists(os.path.join(root, "var/lib/systemd/linger", user.replace("\\", "\\\\")))


def kills_processes(root: str, user: str) -> bool:
    """Whether logind ends what is left of *user*'s sessions. What nothing says is "no", as distributions build it."""
    said: dict[str, str] = {}
    for line in _settings(root):
        key, _, value = line.partition("=")
        said[key.strip()] = value.strip()
    if user in said.get("KillExcludeUsers", "root").split():
        return False
    only = said.get("KillOnlyUsers", "").split()
    return user in only if only else said.get("KillUserProcesses", "").lower() in _TRUE


def _settings(root: str) -> Iterator[str]:
    """Assignments in logind.conf and its drop-ins, in the order in which they count. A line that is commented out in
    the main file tells what was built in."""
    folders = [os.path.join(root, name, "systemd") for name in _CONFIG_ROOTS]
    mains = [read_text(os.path.join(folder, "logind.conf")) for folder in folders]
    main = next(filter(None, mains), "")
    built_in = (line[1:] for text in mains for line in text.splitlines() if line.startswith("#Kill"))
    yield from built_in
    yield from _assignments(main)
    drop_ins: dict[str, str] = {}
    for folder in reversed(folders):
        below = os.path.join(folder, "logind.conf.d")
        drop_ins.update({name: os.path.join(below, name) for name in names_in(below) if name.endswith(".conf")})
    for _, path in sorted(drop_ins.items()):
        yield from _assignments(read_text(path))


def _assignments(text: str) -> Iterator[str]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == "[Login]" and "=" in line and line[0] not in "#;":
            yield line


def _place(cgroups: str) -> Place:
    """From /proc/PID/cgroup: the unified tree's line, or that of systemd's own in older ones."""
    for line in cgroups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" or controllers == "name=systemd":
            if _MANAGER.search(path):
                return "manager"
            if _SESSION.search(path):
                return "session"
    return "elsewhere"


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
