"""The lock of a deck: one engine at a time, told by the kernel and not by a pid file."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import sys
import time
from dataclasses import asdict, dataclass, replace

import msgspec

from ...errors import EngineUnavailableError
from .. import host
from ..processes import proc

_TRY_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a process runs: pids mean something only on the same boot in the same pid namespace."""

    host: str
    machine_id: str
    """"" where the system has none (many containers)."""
    boot_id: str
    pid_ns: int

    def same_box(self, other: Machine) -> bool:
        """A restarted container is the same box: it keeps the boot id, not the host name."""
        if self.boot_id and self.boot_id == other.boot_id:
            return True
        return self.machine_id == other.machine_id and self.host == other.host


def this_machine() -> Machine:
    """The machine of this process."""
    return Machine(
        host=host.hostname(),
        machine_id=host.machine_id(),
        boot_id=host.boot_id(),
        pid_ns=os.stat("/proc/self/ns/pid").st_ino,
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """What the engine that holds, or last held, the lock wrote into it."""

    pid: int
    machine: Machine
    since_wall: float
    command: tuple[str, ...]
    cwd: str
    address: str = ""
    """Where it listens; "" until it does."""


def read_holder(state_dir: str) -> Holder | None:
    """Who holds the lock, or held it last; None: nobody yet, or the file cannot be read."""
    return _parse(proc.read(os.path.join(state_dir, "lock")) or b"")


def left_elsewhere(state_dir: str, unfinished: int, machine: Machine | None = None) -> str:
    """What there is to say where the engine that is gone left *unfinished* attempts on another machine; "" where not.

    Only there can be seen what became of them.
    """
    last = read_holder(state_dir)
    if last is None or not unfinished or (machine or this_machine()).same_box(last.machine):
        return ""
    return _elsewhere(last, unfinished)


def held_by(state_dir: str) -> Holder | None:
    """Who holds the lock now; None: nobody. A pid of 0: somebody of whom nothing can be told.

    Shares the lock for the time of a system call, which an engine that starts at that moment waits out. Nothing is
    made or written.
    """
    path = os.path.join(state_dir, "lock")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _parse(os.pread(fd, 65536, 0)) or Holder(0, this_machine(), 0.0, (), "")
    finally:
        os.close(fd)
    return None


class DeckLock:
    """Holds the deck until `release`, or until this process and every child that has not exec'd yet is gone."""

    def __init__(self, path: str, fd: int, holder: Holder, previous: Holder | None) -> None:
        self.path = path
        self.holder = holder
        self.previous = previous
        """Who held it last, as far as its file tells."""
        self._fd = fd
        self._file = os.fstat(fd)

    @classmethod
    def acquire(
        cls,
        state_dir: str,
        *,
        wait_s: float = 3.0,
        unfinished: int = 0,
        takeover: bool = False,
        machine: Machine | None = None,
    ) -> DeckLock:
        """Take the lock, trying for *wait_s*: a child that an ended engine forked keeps it until its exec.

        *unfinished*: attempts that have not ended as far as the state folder tells; with any, the deck of another
        machine is refused unless *takeover*. Raises EngineUnavailableError: held, another machine's, not possible.
        """
        path = os.path.join(state_dir, "lock")
        machine = machine or this_machine()
        fd = _lock(path, wait_s)
        try:
            last = _parse(os.pread(fd, 65536, 0))
            if last and unfinished and not takeover and not machine.same_box(last.machine):
                raise EngineUnavailableError(_elsewhere(last, unfinished))
            lock = cls(path, fd, Holder(os.getpid(), machine, time.time(), tuple(sys.orig_argv), os.getcwd()), last)
            lock.write()
            os.fsync(fd)
        except OSError as error:
            os.close(fd)
            raise EngineUnavailableError(f"{path} cannot be written: {error.strerror}") from error
        except EngineUnavailableError:
            os.close(fd)
            raise
        return lock

    def write(self, *, address: str = "") -> None:
        """Tell who holds the lock and where it listens. In place: the file must stay the same."""
        self.holder = replace(self.holder, address=address or self.holder.address)
        text = json.dumps(asdict(self.holder)).encode() + b"\n"
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def still_ours(self) -> bool:
        """False when the lock's path is gone or another file (`git clean -fdx`): a second engine may run."""
        return host.is_still(self.path, self._file)

    def moved_to(self) -> str:
        """Where the folder of a lock that is not `still_ours` lies now; "" where it was removed."""
        try:
            found = os.readlink(f"/proc/self/fd/{self._fd}")
        except OSError:
            return ""
        return os.path.dirname(found) if host.is_still(found, self._file) else ""

    def release(self) -> None:
        """Let go. Idempotent; what was written stays for the next engine to read."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lock(path: str, wait_s: float) -> int:
    deadline = time.monotonic() + wait_s
    while True:
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(fd), os.lstat(path)):
                return fd
            held = False
        except FileNotFoundError:
            held = False
        except OSError as error:
            held = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
            if not held:
                os.close(fd)
                raise EngineUnavailableError(f"{path} cannot be locked: {error.strerror}") from error
        holder = _parse(os.pread(fd, 65536, 0)) if held else None
        os.close(fd)
        if held and time.monotonic() >= deadline:
            raise EngineUnavailableError(_held(path, holder))
        time.sleep(_TRY_EVERY_S if held else 0)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise EngineUnavailableError(f"{path} cannot be opened: {error.strerror}") from error


def _held(path: str, holder: Holder | None) -> str:
    if holder is None:
        return f"this deck is run by another process, which holds {path}: `fuser -v {shlex.quote(path)}` names it"
    who = f"gpudeck {holder.pid} on {holder.machine.host} since {_since(holder.since_wall)}"
    here = this_machine()
    if not (holder.machine.same_box(here) and holder.machine.pid_ns == here.pid_ns):
        return f"this deck is run by {who}: use it there, or end that engine first"
    process = proc.stat(holder.pid)
    if process is None or not process.live:
        return (
            f"this deck was run by {who}, which is gone, but a process that it left holds the lock: "
            f"`fuser -v {shlex.quote(path)}` names it"
        )
    if process.state in "tT":
        return f"this deck is run by {who}, which is frozen (state T): `kill -CONT {holder.pid}` lets it go on"
    return f"this deck is run by {who}: `gpudeck attach` follows it, `gpudeck stop` ends it"


def _elsewhere(holder: Holder, unfinished: int) -> str:
    name = holder.machine.host
    tasks = f"{unfinished} task" + ("s" if unfinished != 1 else "")
    there = shlex.quote(f"cd {shlex.quote(holder.cwd)} && gpudeck")
    return (
        f"this deck runs on {name} ({tasks}, engine {holder.pid}): ssh -t {name} {there}; "
        f"or `gpudeck takeover` when {name} is gone"
    )


def _since(wall: float) -> str:
    then, now = time.localtime(wall), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def _parse(content: bytes) -> Holder | None:
    try:
        return msgspec.convert(json.loads(content.partition(b"\n")[0]), Holder)
    except (ValueError, msgspec.ValidationError):
        return None
