"""Whose a process is, by pid."""

from __future__ import annotations

import os

from .. import host


class Owners:
    """Remembers the login names of user ids, which can be slow to ask for (LDAP)."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._names: dict[int, str] = {}

    def look(self, pid: int) -> tuple[str, bool]:
        """(login name, visible): visible is False where no such process exists in our pid namespace.

        A process that exists but is hidden from us (hidepid) is visible and has no name.
        """
        if pid <= 0:
            return "", False
        try:
            uid = os.stat(f"{self._proc}/{pid}").st_uid
        except OSError:
            return "", exists(pid)
        return self._name(uid), True

    def _name(self, uid: int) -> str:
        name = self._names.get(uid)
        if name is None:
            name = self._names[uid] = host.login_of(uid)
        return name


def exists(pid: int) -> bool:
    """Whether there is such a process. Signal 0 tells of one of another user by being refused."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
