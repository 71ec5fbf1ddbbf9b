"""What a logout does to processes started here, told from files: no D-Bus, no systemd needed."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..adapters.host import names_in, read_text

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


def look(*, root: str = "/", user: str | None = None, cgroup: str = "/proc/self/cgroup") -> Logout:
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
