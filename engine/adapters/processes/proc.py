"""Reading /proc: who lives, who descends from whom, who carries which token.

`environ` (and `cmdline`) take the process's memory lock and hang as long as it is stuck in the kernel, so
`environ` is for helper threads only; everything else here is safe on the loop's thread.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from ..host import boottime_s

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_PF_FORKNOEXEC = 0x40
_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that tell who a process is."""

    pid: int
    state: str
    ppid: int
    group: int
    session: int
    terminal: int
    """Device number of its controlling terminal; 0: none."""
    executed: bool
    """It runs a program of its own; False: a copy of its parent so far, with the parent's signal handlers."""
    threads: int
    start_ticks: int
    """When it started, in ticks of CLOCK_BOOTTIME: with the pid its identity on this boot."""

    @property
    def live(self) -> bool:
        """Runs, or can run again. A process whose first thread has ended looks like a zombie while others go on."""
        return self.state not in _DEAD or self.threads > 1


@dataclass(frozen=True, slots=True)
class Features:
    """What this kernel offers; the launcher does without at a price."""

    pidfd: bool = True
    """Ends of processes wake the loop (Linux 5.3); otherwise it looks four times a second."""
    subreaper: bool = True
    """Orphans of our attempts become our children (`become_subreaper`); otherwise all of /proc is searched."""
    children_files: bool = True
    """/proc/PID/task/TID/children exists (CONFIG_PROC_CHILDREN); otherwise all of /proc is read for parents."""


def probe() -> Features:
    """Find out what the kernel offers, by trying, and whether `become_subreaper` was called."""
    return Features(
        pidfd=_has_pidfd(),
        subreaper=_is_subreaper(),
        children_files=os.path.exists(f"/proc/self/task/{os.getpid()}/children"),
    )


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def _is_subreaper() -> bool:
    import ctypes  # clients read /proc too, and do without

    answer = ctypes.c_int(0)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return answer.value == 1 or os.getpid() == 1


def become_subreaper() -> bool:
    """Make this process the parent of all orphans among its descendants. False where the kernel refuses.

    Also undoes an inherited SIG_IGN for SIGCHLD, with which the kernel would throw exit codes away. For the main
    thread.
    """
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def uptime_lag_s() -> float:
    """How far /proc/uptime is behind CLOCK_BOOTTIME: 0, but in some containers it counts from their own start."""
    words = (read("/proc/uptime") or b"").split()
    lag_s = boottime_s() - float(words[0]) if words else 0.0
    return lag_s if lag_s > 1 else 0.0


@cache
def _lag_ticks() -> int:
    return round(uptime_lag_s() * TICKS_PER_S)


def doubt_ticks() -> int:
    """How far apart two readings of one moment may be, in /proc/uptime and as the start of a process: 0 unless one of
    them is made up by a container. No pid is given away again that soon."""
    return 2 * TICKS_PER_S if _lag_ticks() else 0


def earliest_tick(uptime_s: float) -> int:
    """When at the earliest a process started that was not there yet when /proc/uptime said *uptime_s*."""
    return round(uptime_s * TICKS_PER_S) + _lag_ticks() - doubt_ticks() // 2


def latest_tick(uptime_s: float) -> int:
    """When at the latest a process started that was there when /proc/uptime said *uptime_s*."""
    return round(uptime_s * TICKS_PER_S) + _lag_ticks() + doubt_ticks() // 2


def read(path: str) -> bytes | None:
    """The whole of a small file, or None when it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Files of /proc may come in pages, and a short read is not their end.
        chunks: list[bytes] = []
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
        return b"".join(chunks)
    except OSError:
        return None
    finally:
        os.close(fd)


def parse_stat(line: bytes) -> Stat | None:
    """Parse a line of /proc/PID/stat; None when it is not whole. The name in it may hold blanks and parentheses."""
    head, _, tail = line.rpartition(b")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    try:
        return Stat(
            pid=int(head.partition(b"(")[0]),
            state=fields[0].decode("ascii"),
            ppid=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            terminal=int(fields[4]),
            executed=not int(fields[6]) & _PF_FORKNOEXEC,
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
        )
    except ValueError:
        return None


def stat(pid: int) -> Stat | None:
    """Who *pid* is now; None: there is no such process."""
    line = read(f"/proc/{pid}/stat")
    return None if line is None else parse_stat(line)


def is_live(pid: int, start_ticks: int) -> bool:
    """Whether this very process runs (a zombie does not)."""
    now = stat(pid)
    return now is not None and now.start_ticks == start_ticks and now.live


def exists(pid: int) -> bool:
    """Whether there is such a process. Signal 0 tells of one of another user by being refused."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler of its own for signal *number*."""
    return bool(int(_status(pid, b"SigCgt:") or b"0", 16) >> (number - 1) & 1)


def in_namespace(pid: int) -> bool:
    """Whether the process has another pid to itself than to us: it is in a container."""
    return len(_status(pid, b"NSpid:").split()) > 1


def _status(pid: int, name: bytes) -> bytes:
    """A line of /proc/PID/status, b"" where there is none."""
    lines = (read(f"/proc/{pid}/status") or b"").splitlines()
    return next((line.removeprefix(name) for line in lines if line.startswith(name)), b"")


def environ(pid: int) -> bytes | None:
    """What *pid* was started with: empty for kernel threads and in the middle of an exec, None where not readable."""
    return read(f"/proc/{pid}/environ")


def token_in(environ: bytes) -> str:
    """GPUDECK_TOKEN in an environment, "" where there is none."""
    value = (b"\0" + environ).partition(b"\0GPUDECK_TOKEN=")[2].partition(b"\0")[0]
    return value.decode("utf-8", "replace")


def own_children() -> list[int]:
    """Pids of this process's children, zombies too, as far as the main thread is their parent: orphans always are."""
    me = os.getpid()
    return [int(pid) for pid in (read(f"/proc/{me}/task/{me}/children") or b"").split()]


def everyone() -> dict[int, Stat]:
    """All processes by pid. Takes about 10 µs for each."""
    found = (stat(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descend(roots: Collection[int]) -> dict[int, Stat]:
    """The processes *roots* and all below them, parents before children. Reads only what belongs to them."""
    found: dict[int, Stat] = {}
    pids = list(roots)
    for pid in pids:
        process = None if pid in found else stat(pid)
        if process is not None:
            found[pid] = process
            pids.extend(children(pid))
    return found


def descend_in(processes: Mapping[int, Stat], roots: Collection[int]) -> dict[int, Stat]:
    """Like `descend`, within a picture of all processes taken before."""
    below: dict[int, list[int]] = {}
    for process in processes.values():
        below.setdefault(process.ppid, []).append(process.pid)
    found: dict[int, Stat] = {}
    pids = list(roots)
    for pid in pids:
        if pid in processes and pid not in found:
            found[pid] = processes[pid]
            pids.extend(below.get(pid, ()))
    return found


def child_processes(pid: int, *, children_files: bool) -> list[Stat]:
    """The children of *pid*, as they are now."""
    found = map(stat, children(pid)) if children_files else everyone().values()
    return [process for process in found if process is not None and process.ppid == pid]


def children(pid: int) -> list[int]:
    """Children of all threads of *pid*: each thread keeps a list of its own."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    lists = (read(f"/proc/{pid}/task/{thread}/children") or b"" for thread in threads)
    return [int(child) for text in lists for child in text.split()]
