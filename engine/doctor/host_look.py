"""What the host tells that matters to training: disk, shared memory, limits, ports. Linux."""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import dataclass

from ..adapters import host
from ..adapters.processes import proc
from ..adapters.state.mounts import file_system
from ..linger import Logout
from ..linger import look as look_at_logout
from .patience import within

_FILES_S = 5.0
_NAMES_S = 5.0
_TORCHRUN_PORT = 29500
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Disk:
    """Of the file system that a folder is on, or would be."""

    path: str
    free_mib: int = 0
    total_mib: int = 0
    kind: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit."""

    open_files: int | None
    open_files_most: int | None
    processes: int | None
    processes_now: int
    """Threads of this user: they are what the limit counts."""


@dataclass(frozen=True, slots=True)
class Ports:
    free: bool
    """Whether the kernel gives out a port on localhost."""
    torchrun_taken: bool
    """Whether somebody listens on torchrun's default port."""
    name_trouble: str = ""
    """Why the host's own name cannot be looked up."""


def disk(path: str) -> Disk:
    def look() -> Disk:
        folder = os.path.abspath(path)
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        numbers = os.statvfs(folder)
        free, total = (count * numbers.f_frsize // _MIB for count in (numbers.f_bavail, numbers.f_blocks))
        writable = "" if os.access(folder, os.W_OK | os.X_OK) else "may not be written"
        return Disk(path, free, total, file_system(folder), writable)

    try:
        return within(_FILES_S, look)
    except (OSError, TimeoutError) as error:
        return Disk(path, trouble=getattr(error, "strerror", None) or str(error))


def limits() -> Limits:
    (files, most), (processes, _) = (
        resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    return Limits(_number(files), _number(most), _number(processes), _own_threads())


def ports() -> Ports:
    try:
        within(_NAMES_S, lambda: socket.getaddrinfo(socket.gethostname(), None))
        trouble = ""
    except (OSError, TimeoutError) as error:
        trouble = f"{socket.gethostname()}: {error}"
    return Ports(_can_bind(0), not _can_bind(_TORCHRUN_PORT), trouble)


def logout() -> Logout | None:
    """None: who we are cannot be asked in time (LDAP)."""
    try:
        return within(_NAMES_S, look_at_logout)
    except TimeoutError:
        return None


def missing_in_kernel() -> list[str]:
    """What the engine does without here, in words."""
    features = proc.probe()
    return [
        name
        for name, there in (("pidfd", features.pidfd), ("/proc/PID/task/*/children", features.children_files))
        if not there
    ]


def cores() -> int:
    return host.cores()


def _number(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def _own_threads() -> int:
    mine, count = os.getuid(), 0
    for pid, process in proc.everyone().items():
        try:
            count += process.threads if os.stat(f"/proc/{pid}").st_uid == mine else 0
        except OSError:
            continue
    return count


def _can_bind(port: int) -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(1)
    except OSError:
        return False
    return True
