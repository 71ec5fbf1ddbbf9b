"""The box: disk, shared memory, limits, logout, ports, the kernel."""

from __future__ import annotations

import os
import re
import resource
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..adapters.background import within
from ..adapters.processes import proc
from ..adapters.state.mounts import NETWORK_FILE_SYSTEMS, file_system
from ..client.detach import Logout, look_at_logout
from ..core.spec import DeckSettings, TaskSpec
from ..text import command_text, mib_text
from .finding import Finding, fail, ok, warn

_FILES_S = 5.0
_NAMES_S = 5.0
TORCHRUN_PORT = 29500
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


def name_trouble() -> str:
    """Why the host's own name cannot be looked up; "" where it can."""
    try:
        within(_NAMES_S, lambda: socket.getaddrinfo(socket.gethostname(), None))
    except (OSError, TimeoutError) as error:
        return f"{socket.gethostname()}: {error}"
    return ""


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


def can_bind(port: int) -> bool:
    """On localhost. *port*: 0 for any that the kernel gives out."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(1)
    except OSError:
        return False
    return True


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


def check_ports(*, free: bool, torchrun_taken: bool, trouble: str = "") -> Iterator[Finding]:
    """A rendezvous of ranks needs a port and a name. *trouble*: see `name_trouble`."""
    name = "rendezvous"
    if not free:
        yield fail(
            name, "no port on localhost can be listened on", "look at net.ipv4.ip_local_port_range and firewalls"
        )
    elif torchrun_taken:
        remedy = "torchrun --standalone takes a free one; a fixed --master-port clashes"
        yield warn(name, "port 29500, torchrun's default, is taken", remedy)
    elif trouble:
        yield warn(name, f"this host's own name is not known: {trouble}", "add it to /etc/hosts, ranks look it up")
    else:
        yield ok(name, "ports are free, 29500 too")


def check_kernel(missing: Sequence[str]) -> Finding:
    if missing:
        remedy = "ends of tasks are noticed up to 250 ms later; a kernel from 5.4 on has it"
        return warn("kernel", f"lacks {', '.join(missing)}", remedy)
    return ok("kernel", "has what the engine asks for")


_WORKERS = re.compile(r"""(?:^|[\s"'.-])(?:num[-_]workers|dataloader[-_]num[-_]workers|workers)[\s="']+(\d{1,4})\b""")


def check_load(tasks: Sequence[TaskSpec], settings: DeckSettings, gpus: int, cores: int) -> Finding:
    name = "cores"
    named = [(task, workers) for task in tasks if (workers := workers_in(task))]
    loads = [(_at_once(task, tasks, settings, gpus, cores), workers, task.name) for task, workers in named]
    if not loads:
        return ok(name, f"{cores} for tasks; no command names its data loader workers")
    processes, workers, task = max(loads, key=lambda load: load[0] * load[1])
    text = f"{cores} for {processes * workers} data loader workers: {processes} × {workers} with tasks like {task}"
    if processes * workers > cores:
        most = max(1, cores // processes)
        return warn(name, text, f"at most {most} a process, or fewer slots_per_gpu")
    return ok(name, text)


def _at_once(task: TaskSpec, tasks: Sequence[TaskSpec], settings: DeckSettings, gpus: int, cores: int) -> int:
    """Processes of all tasks like it that may run together."""
    alike = sum(other.entry == task.entry for other in tasks)
    at_once = max(1, min(alike, task.resources.max_parallel or alike, _places(task, settings, gpus, cores)))
    return at_once * (task.extras.nproc or _processes(task, gpus))


def workers_in(task: TaskSpec) -> int:
    """What `--num-workers 4`, `--workers=4` or `data.num_workers=4` in its command says; 0: nothing."""
    found = [int(number) for number in _WORKERS.findall(command_text(task.work.command))]
    return found[-1] if found else 0


def _processes(task: TaskSpec, gpus: int) -> int:
    if task.extras.launch == "command":
        return 1
    return gpus if task.resources.gpus == "all" else max(1, task.resources.gpus)


def _places(task: TaskSpec, settings: DeckSettings, gpus: int, cores: int) -> int:
    wanted = task.resources.gpus
    if wanted == 0 or not gpus:
        return settings.cpu_slots or cores
    slots = settings.slots_per_gpu if isinstance(settings.slots_per_gpu, int) else 1
    return gpus * slots // (gpus if wanted == "all" else wanted)
