"""What the host says about itself: cores, memory, clocks, identity, file systems. Linux; reads files, starts nothing.

Limits of containers and cgroups count: a job that may use 4 of 64 cores has 4.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator

from ..ports import Instant

_PROC = "/proc"
_CGROUP = "/sys/fs/cgroup"
_MIB = 1024 * 1024


class SystemClock:
    """ports.Clock on the kernel's clocks."""

    def now(self) -> Instant:
        return Instant(boot_s=boottime_s(), wall_s=time.time())


def boottime_s() -> float:
    """Seconds of CLOCK_BOOTTIME: goes on while the box sleeps, never jumps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# -- identity ---------------------------------------------------------------------------------------------------------


def boot_id(proc: str = _PROC) -> str:
    """Random id of this boot; "" where the kernel does not tell."""
    return _read(f"{proc}/sys/kernel/random/boot_id").strip()


def machine_id(paths: tuple[str, ...] = ("/etc/machine-id", "/var/lib/dbus/machine-id")) -> str:
    """Id of this installation; "" where there is none (minimal containers)."""
    return next((text for path in paths if (text := _read(path).strip())), "")


def hostname() -> str:
    return socket.gethostname()


def host_identity() -> str:
    """Tells boxes apart that share a file system: machine id and host name, as cloned images share the first."""
    return f"{machine_id() or 'no-machine-id'} {hostname()}"


# -- cores and memory -------------------------------------------------------------------------------------------------


def cores(proc: str = _PROC, cgroup: str = _CGROUP) -> int:
    """Cores that this process may use, at least 1: its affinity, and the CPU quota of its cgroups rounded down."""
    quotas = [quota for folder in _cgroup_folders("cpu", proc, cgroup) if (quota := _cpu_quota(folder)) is not None]
    return max(1, int(min([len(os.sched_getaffinity(0)), *quotas])))


def mem_total_mib(proc: str = _PROC, cgroup: str = _CGROUP) -> int:
    """Memory of the box, or the smallest limit of our cgroups."""
    limits = [limit for folder in _cgroup_folders("memory", proc, cgroup) if (limit := _memory_limit(folder))]
    return min([_meminfo(proc, "MemTotal"), *limits]) // _MIB


def mem_available_mib(proc: str = _PROC, cgroup: str = _CGROUP) -> int:
    """What new processes can take without swapping: MemAvailable, or what the tightest of our cgroups leaves."""
    left = [
        max(0, limit - _memory_used(folder))
        for folder in _cgroup_folders("memory", proc, cgroup)
        if (limit := _memory_limit(folder))
    ]
    return min([_meminfo(proc, "MemAvailable"), *left]) // _MIB


def oom_kills(proc: str = _PROC) -> int:
    """How many processes the kernel has killed for want of memory since the boot, in any cgroup; 0 where not told."""
    found = re.search(r"^oom_kill (\d+)", _read(f"{proc}/vmstat"), re.MULTILINE)
    return int(found[1]) if found else 0


def _meminfo(proc: str, key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB", _read(f"{proc}/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _cgroup_folders(controller: str, proc: str, root: str) -> Iterator[str]:
    """Folders of our cgroup and its ancestors. Without a cgroup namespace a container's own path does not exist below
    its mount; what exists above it, the mount itself at the least, is what limits it."""
    for line in _read(f"{proc}/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            mounts = (root, f"{root}/unified")
        elif controller in names.split(","):
            mounts = (f"{root}/{names}", f"{root}/{controller}")
        else:
            continue
        for mount in mounts:
            yield from (folder for folder in _upwards(mount, path) if os.path.isdir(folder))


def _upwards(mount: str, path: str) -> Iterator[str]:
    parts = [part for part in path.split("/") if part and part != ".."]
    for length in range(len(parts), -1, -1):
        yield "/".join([mount, *parts[:length]])


def _cpu_quota(folder: str) -> float | None:
    quota, _, period = _read(f"{folder}/cpu.max").strip().partition(" ")
    if not quota:
        quota, period = _read(f"{folder}/cpu.cfs_quota_us").strip(), _read(f"{folder}/cpu.cfs_period_us").strip()
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _memory_limit(folder: str) -> int:
    """Bytes; 0: none. `memory.high` counts too: beyond it processes are throttled to a crawl."""
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [int(text) for name in names if (text := _read(f"{folder}/{name}").strip()).isdigit()]
    return min(limits, default=0)


def _memory_used(folder: str) -> int:
    """Bytes in use, without the page cache that the kernel would drop first."""
    used = _read(f"{folder}/memory.current").strip() or _read(f"{folder}/memory.usage_in_bytes").strip()
    cache = re.search(r"^(?:total_)?inactive_file (\d+)", _read(f"{folder}/memory.stat"), re.MULTILINE)
    return max(0, int(used) - (int(cache[1]) if cache else 0)) if used.isdigit() else 0


# -- file systems -----------------------------------------------------------------------------------------------------

_ALIASES = {"nfs4": "nfs", "smb3": "cifs", "smbfs": "cifs", "fuse.glusterfs": "glusterfs", "fuse.ceph": "ceph"}
_NETWORK = frozenset({
    "nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "glusterfs", "afs", "panfs", "pvfs2", "orangefs", "wekafs", "9p",
    "virtiofs", "ocfs2", "gfs2", "fuse.sshfs", "fuse.juicefs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse",
    "fuse.beegfs", "fuse.moosefs", "fuse.mfs", "fuse.goofys", "fuse.davfs", "davfs", "fuse.cvmfs2",
})  # fmt: skip


def filesystem_kind(path: str, proc: str = _PROC) -> str:
    """Kind of the file system that *path* is on, or would be made on: "ext4", "tmpfs", "nfs", "lustre", …; "" unknown.

    Touches the path, so it can block where a network file system hangs.
    """
    there = os.path.realpath(_existing(path))
    kind, best = "", -1
    for mount, mounted in _mounts(proc):
        inside = there == mount or there.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= best:
            kind, best = mounted, len(mount)
    return _ALIASES.get(kind, kind)


def is_network_kind(kind: str) -> bool:
    """Shared between hosts: kernel locks, SQLite's WAL and inotify cannot be relied on there."""
    return kind in _NETWORK


def free_bytes(path: str) -> int:
    """Bytes that we may still write where *path* is, or would be made. Raises OSError."""
    state = os.statvfs(_existing(path))
    return state.f_bavail * state.f_frsize


def _existing(path: str) -> str:
    here: str = os.path.abspath(path)
    while not os.path.lexists(here) and here != "/":
        here = os.path.dirname(here)
    return here


def _mounts(proc: str) -> Iterator[tuple[str, str]]:
    """(mount point, kind) of each mount, in the order of mounting; see proc_pid_mountinfo(5)."""
    for line in _read(f"{proc}/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) > 4 and right:
            yield _unescape(fields[4]), right.split(" ", 1)[0]


def _unescape(text: str) -> str:
    """Spaces and backslashes stand as \\040 and \\134 there."""
    return re.sub(r"\\([0-7]{3})", _character, text)


def _character(octal: re.Match[str]) -> str:
    return chr(int(octal[1], 8))


def _read(path: str) -> str:
    """Text of a small file; "" where there is none or it may not be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
