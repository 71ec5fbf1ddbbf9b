"""Judgements on the host. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..adapters.state.mounts import NETWORK_FILE_SYSTEMS
from ..headless.text import mib_text
from ..linger import Logout
from .finding import Finding, fail, ok, warn
from .host_look import Disk, Limits, Ports

_LOW_DISK_MIB = 10 * 1024
_FULL_DISK_MIB = 100
_SMALL_SHM_MIB = 1024
_FEW_FILES = 1024
_FEW_PROCESSES = 1000


def check_disk(disk: Disk, *, shared: bool = False) -> Finding:
    """Room for logs, and whether a file server is behind them. *shared*: there has to be one."""
    name = "disk"
    if disk.trouble and not disk.total_mib:
        return fail(name, f"{disk.path}: {disk.trouble}", "mend the file system, or choose another log_dir")
    if disk.trouble:
        return fail(name, f"{disk.path} {disk.trouble}", "choose another log_dir")
    text = f"{mib_text(disk.free_mib)} free at {disk.path} ({disk.kind or 'unknown file system'})"
    if disk.free_mib < _FULL_DISK_MIB:
        return fail(name, text, "make room: gpudeck clean removes logs of attempts that are over")
    if disk.kind in NETWORK_FILE_SYSTEMS and not shared:
        return warn(
            name, text, "a file server: slow with many small files, keep data and logs of a run on a local disk"
        )
    if disk.free_mib < _LOW_DISK_MIB:
        return warn(name, text, "checkpoints fill this fast: gpudeck clean, or another log_dir")
    return ok(name, text)


def check_shared_memory(shm: Disk) -> Finding:
    """Data loaders pass batches through it; containers get 64 MiB unless told otherwise."""
    name = "/dev/shm"
    remedy = "docker run --shm-size=16g or --ipc=host; on a host: mount -o remount,size=50% /dev/shm"
    if shm.trouble:
        return fail(name, shm.trouble, remedy)
    text = f"{mib_text(shm.free_mib)} free of {mib_text(shm.total_mib)}"
    if min(shm.free_mib, shm.total_mib) < _SMALL_SHM_MIB:
        return warn(name, f"{text}: too little for data loaders with workers", remedy)
    return ok(name, text)


def check_limits(limits: Limits) -> Iterator[Finding]:
    files = limits.open_files
    if files is not None and files < _FEW_FILES:
        most = limits.open_files_most or 65536
        remedy = f"ulimit -n {min(65536, most)} in the shell that starts gpudeck"
        yield warn("open files", f"{files} at most: data loaders need more", remedy)
    else:
        yield ok("open files", "no limit" if files is None else f"{files:,} at most")
    allowed = limits.processes
    text = f"{limits.processes_now:,} in use"
    if allowed is not None and allowed - limits.processes_now < _FEW_PROCESSES:
        yield warn("processes", f"{text} of {allowed:,}", "ulimit -u more: each data loader worker has several threads")
    else:
        yield ok("processes", text if allowed is None else f"{text} of {allowed:,}")


def check_logout(logout: Logout | None) -> Finding:
    if logout is None:
        return warn("logout", "the user's name cannot be looked up in time", "look at the name service (LDAP, sssd)")
    if logout.hint:
        return warn("logout", "your processes end when you log out", logout.remedy)
    where = "lingering is on" if logout.lingers else "nothing here ends processes at a logout"
    return ok("logout", where)


def check_ports(ports: Ports) -> Iterator[Finding]:
    """A rendezvous of ranks needs a port and a name."""
    name = "rendezvous"
    if not ports.free:
        yield fail(
            name, "no port on localhost can be listened on", "look at net.ipv4.ip_local_port_range and firewalls"
        )
    elif ports.torchrun_taken:
        remedy = "torchrun --standalone takes a free one; a fixed --master-port clashes"
        yield warn(name, "port 29500, torchrun's default, is taken", remedy)
    elif ports.name_trouble:
        yield warn(
            name, f"this host's own name is not known: {ports.name_trouble}", "add it to /etc/hosts, ranks look it up"
        )
    else:
        yield ok(name, "ports are free, 29500 too")


def check_kernel(missing: Sequence[str]) -> Finding:
    if missing:
        remedy = "ends of tasks are noticed up to 250 ms later; a kernel from 5.4 on has it"
        return warn("kernel", f"lacks {', '.join(missing)}", remedy)
    return ok("kernel", "has what the engine asks for")
