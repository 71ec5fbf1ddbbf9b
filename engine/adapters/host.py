"""What the host says about itself: cores, memory, clocks, identity, file systems. Linux; reads files, starts nothing.

Limits of containers and cgroups count: a job that may use 4 of 64 cores has 4.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import time
from collections.abc import Iterator

from ..ports import Instant

_PROC = "/proc"
_CGROUP = "/sys/fs/cgroup"
_VMSTAT_BYTES = 65_536
"""Ten times what it has."""
_MIB = 1024 * 1024


class SystemClock:
    """ports.Clock on the kernel's clocks."""

    def now(self) -> Instant:
        return Instant(boot_s=boottime_s(), wall_s=time.time())


def boottime_s() -> float:
    """Seconds of CLOCK_BOOTTIME: goes on while the box sleeps, never jumps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# -- identity ---------------------------------------------------------------------------------------------------------


def login_of(uid: int, nameless: str = "{}") -> str:
    """A user's login name; *nameless* with the number in it where there is none. May be slow (LDAP)."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return nameless.format(uid)


def boot_id(proc: str = _PROC) -> str:
    """Random id of this boot; "" where the kernel does not tell."""
    return read_text(f"{proc}/sys/kernel/random/boot_id").strip()


def machine_id(paths: tuple[str, ...] = ("/etc/machine-id", "/var/lib/dbus/machine-id")) -> str:
    """Id of this installation; "" where there is none (minimal containers)."""
    return next((text for path in paths if (text := read_text(path).strip())), "")


def hostname() -> str:
    return socket.gethostname()


# -- cores and memory -------------------------------------------------------------------------------------------------


def cores(proc: str = _PROC, cgroup: str = _CGROUP) -> int:
    """Cores that this process may use, at least 1: its affinity, and the CPU quota of its cgroups rounded down."""
    quotas = [quota for folder in _cgroup_folders("cpu", proc, cgroup) if (quota := _cpu_quota(folder)) is not None]
    return max(1, int(min([len(os.sched_getaffinity(0)), *quotas])))


def mem_available_mib(proc: str = _PROC, cgroup: str = _CGROUP) -> int:
    """What new processes can take without swapping: MemAvailable, or what the tightest of our cgroups leaves."""
    left = [
        max(0, limit - _memory_used(folder))
        for folder in _cgroup_folders("memory", proc, cgroup)
        if (limit := _memory_limit(folder))
    ]
    return min([_meminfo(proc, "MemAvailable"), *left]) // _MIB


def mem_total_mib(proc: str = _PROC, cgroup: str = _CGROUP) -> int:
    """What we could take if there were no others: MemTotal, or what the tightest of our cgroups allows."""
    limits = [limit for folder in _cgroup_folders("memory", proc, cgroup) if (limit := _memory_limit(folder))]
    return min([_meminfo(proc, "MemTotal"), *limits]) // _MIB


def oom_kills(proc: str = _PROC) -> int:
    """How many processes the kernel has killed for want of memory since the boot, in any cgroup; 0 where not told."""
    try:  # each start looks here: in one read, and without a pattern
        with open(f"{proc}/vmstat", "rb", buffering=0) as file:
            _, _, rest = file.read(_VMSTAT_BYTES).partition(b"\noom_kill ")
    except OSError:
        return 0
    return int(rest.split(b"\n", 1)[0] or 0)


def _meminfo(proc: str, key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB", read_text(f"{proc}/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _cgroup_folders(controller: str, proc: str, root: str) -> Iterator[str]:
    """Folders of our cgroup and its ancestors. Without a cgroup namespace a container's own path does not exist below
    its mount; what exists above it, the mount itself at the least, is what limits it."""
    for line in read_text(f"{proc}/self/cgroup").splitlines():
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
    quota, _, period = read_text(f"{folder}/cpu.max").strip().partition(" ")
    if not quota:
        quota = read_text(f"{folder}/cpu.cfs_quota_us").strip()
        period = read_text(f"{folder}/cpu.cfs_period_us").strip()
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(quota) / int(period)


def _memory_limit(folder: str) -> int:
    """Bytes; 0: none. `memory.high` counts too: beyond it processes are throttled to a crawl."""
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [int(text) for name in names if (text := read_text(f"{folder}/{name}").strip()).isdigit()]
    return min(limits, default=0)


def _memory_used(folder: str) -> int:
    """Bytes in use, without the page cache that the kernel would drop first."""
    used = read_text(f"{folder}/memory.current").strip() or read_text(f"{folder}/memory.usage_in_bytes").strip()
    cache = re.search(r"^(?:total_)?inactive_file (\d+)", read_text(f"{folder}/memory.stat"), re.MULTILINE)
    return max(0, int(used) - (int(cache[1]) if cache else 0)) if used.isdigit() else 0


def read_text(path: str) -> str:
    """Text of a small file; "" where there is none or it may not be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def names_in(folder: str) -> list[str]:
    """What a folder has; nothing where there is none or it may not be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def is_still(path: str, file: os.stat_result) -> bool:
    """Whether *path* means this very file; False too where nothing is there."""
    try:
        return os.path.samestat(os.lstat(path), file)
    except OSError:
        return False


_NVIDIA = "0x10de"
_DISPLAY_CLASS = "0x03"


def has_nvidia_hardware(sys_root: str = "/sys", dev_root: str = "/dev") -> bool:
    """True where the PCI bus has an NVIDIA display device or /dev has NVIDIA nodes.

    Network cards of the same vendor are of another class. A device bound to another driver still counts.
    """
    return _has_device_nodes(dev_root) or _on_pci(f"{sys_root}/bus/pci/devices")


def _has_device_nodes(dev_root: str) -> bool:
    return any(name.startswith("nvidia") for name in names_in(dev_root))


def _on_pci(folder: str) -> bool:
    return any(
        read_text(f"{folder}/{name}/vendor").strip() == _NVIDIA
        and read_text(f"{folder}/{name}/class").startswith(_DISPLAY_CLASS)
        for name in names_in(folder)
    )
