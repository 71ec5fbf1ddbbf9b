"""The file in which decks of all users lock GPUs: where it lies, how it is opened without trust, one byte per GPU.

Locks are F_OFD ones: they belong to an open file description, so that a wrapper that inherits one keeps it after the
engine's death, and no other descriptor of the same process can drop it by being closed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import blake2b

from ..host import is_still
from ..processes import proc
from ..state.mounts import NETWORK_FILE_SYSTEMS, file_system

VARIABLE = "GPUDECK_LOCK_DIR"
"""Environment variable: the folder to use instead of the box's own."""
GANG_BYTE = 0
"""Whoever has it may keep idle GPUs while it gathers several."""

ANY = ""
"""In the place of a GPU: one question tells that nobody asks for any."""

WRAPPER_FD = 9
"""The number that a wrapper has its description by."""

Wrapper = tuple[int, int]
"""Pid and start of a process."""

NAME = "gpus"
_FLOCK = struct.Struct("hhqqi4x")
_LOWEST_FD = 10
"""The wrapper gets its description as number 9: a source of that number would not survive the exec."""
_SHARED_FOLDER = 0o1777
_SHARED_FILE = 0o666


class UnusableError(Exception):
    """Locks cannot be used here. One line: what is wrong with what."""


def lock_folder(environ: Mapping[str, str], *, runtime: str = "/run/lock", temporary: str = "/tmp") -> str:
    """Where the file lies: for all users of a box the same. Not /dev/shm, which logind empties at a logout."""
    given = environ.get(VARIABLE, "")
    if given:
        return os.path.abspath(given)
    try:
        mode = os.stat(runtime).st_mode
    except OSError:
        mode = 0
    shared = mode & stat.S_ISVTX and mode & stat.S_IWOTH
    return os.path.join(runtime, "gpudeck") if shared else os.path.join(temporary, "gpudeck-locks")


@lru_cache(maxsize=4096)
def byte_of(uuid: str) -> int:
    """The place of a GPU, or a wish for one, in the file. Of 2**48 places: two of a box do not meet."""
    return 1 + int.from_bytes(blake2b(uuid.encode(), digest_size=6).digest(), "big")


class LockFile:
    """The open file, and what one engine has locked in it: the GPUs that are its deck's, and the right to keep idle
    ones. Raises UnusableError where it, or its folder, is not what it should be."""

    def __init__(self, folder: str) -> None:
        self.gpus: set[str] = set()
        self._wishes: set[str] = set()
        self.gang = False
        """It has the gang byte, and may keep idle GPUs."""
        self.folder = folder
        self.path = os.path.join(folder, NAME)
        if file_system(folder) in NETWORK_FILE_SYSTEMS:
            raise UnusableError(f"{folder} lies on a network file system")
        try:
            self.folder_fd = _open_folder(folder)
        except OSError as error:
            raise UnusableError(_words(folder, error)) from error
        try:
            self.fd = _open_file(self.folder_fd, self.path)
        except OSError as error:
            os.close(self.folder_fd)
            raise UnusableError(_words(self.path, error)) from error
        except UnusableError:
            os.close(self.folder_fd)
            raise
        self.file = os.fstat(self.fd)
        try:
            _set(self.fd, GANG_BYTE, fcntl.F_UNLCK)
        except OSError as error:  # some kernels and file systems have no such locks
            self.close()
            raise UnusableError(_words(self.path, error)) from error

    def sound(self) -> bool:
        """Whether the path still means this file; a cleaned one that others made anew is a second lock."""
        return is_still(self.path, self.file)

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.folder_fd)

    def take(self, gpus: Collection[str], ours: Collection[str]) -> int | None:
        """Lock all of these, or none, for a wrapper and for the engine.

        *ours*: those that are this deck's anyway. Returns the wrapper's descriptor; None: another deck has one of them.
        Raises OSError when there is no descriptor to be had.
        """
        fd = self.again()
        wanted = sorted((byte_of(uuid), uuid in ours) for uuid in gpus)
        if not all(lock(fd, byte, shared=shared) for byte, shared in wanted):
            os.close(fd)
            return None
        for byte, _ in wanted:
            lock(fd, byte, shared=True)
            lock(self.fd, byte, shared=True)
        self.gpus.update(gpus)
        return fd

    def seize(self, uuid: str) -> bool:
        """Lock one for the engine alone."""
        byte = byte_of(uuid)
        if lock(self.fd, byte, shared=False) and lock(self.fd, byte, shared=True):
            self.gpus.add(uuid)
            return True
        return False

    def join(self, uuid: str, wrapper: Wrapper) -> bool:
        """Lock one together with a process that an earlier engine of this deck gave it to, if that has it.

        It must have it before and after we do: else another deck may have come in between.
        """
        if not self._has(wrapper, uuid):
            return False
        if lock(self.fd, byte_of(uuid), shared=True) and self._has(wrapper, uuid):
            self.gpus.add(uuid)
            return True
        unlock(self.fd, byte_of(uuid))
        return False

    def may_gather(self) -> bool:
        """Whether this engine is, or could now become, the one of the box that keeps idle GPUs."""
        self.gang = self.gang or lock(self.fd, GANG_BYTE, shared=False)
        return self.gang

    def gather_no_more(self) -> None:
        if self.gang:
            unlock(self.fd, GANG_BYTE)
            self.gang = False

    def wish(self, gpus: Collection[str]) -> None:
        """Ask the user's other decks to leave these GPUs, as they come free, to this one. Several may ask."""
        wishes = {*gpus, ANY} if gpus else set[str]()
        for uuid in self._wishes - wishes:
            unlock(self.fd, _wish(uuid))
        for uuid in wishes - self._wishes:
            lock(self.fd, _wish(uuid), shared=True)
        self._wishes = wishes

    def is_wished(self, uuid: str) -> bool:
        """Whether another deck of the user asks for it, or for `ANY`."""
        return is_locked(self.fd, _wish(uuid))

    def keep_only(self, gpus: set[str]) -> None:
        for uuid in self.gpus - gpus:
            unlock(self.fd, byte_of(uuid))
        self.gpus &= gpus

    def elsewhere(self, gpus: Collection[str]) -> list[str]:
        """Those of *gpus* that somebody else has."""
        return [uuid for uuid in gpus if uuid not in self.gpus and is_locked(self.fd, byte_of(uuid))]

    def _has(self, wrapper: Wrapper, uuid: str) -> bool:
        pid, start_ticks = wrapper
        return inherited(pid, WRAPPER_FD, self.file, byte_of(uuid)) and proc.is_live(pid, start_ticks)

    def again(self) -> int:
        """Another open file description of the same file, for a wrapper. Raises OSError."""
        fd = os.open(f"/proc/self/fd/{self.fd}", os.O_RDWR | os.O_CLOEXEC)
        return fd if fd >= _LOWEST_FD else _high(fd)


def _wish(uuid: str) -> int:
    """Only those of one user are heeded: on a shared box nobody goes before others."""
    return byte_of(f"next\0{os.geteuid()}\0{uuid}")


def lock(fd: int, byte: int, *, shared: bool) -> bool:
    """Lock one byte for the description of *fd*, or change its lock. False: another description is in the way."""
    try:
        _set(fd, byte, fcntl.F_RDLCK if shared else fcntl.F_WRLCK)
    except OSError:
        return False
    return True


def unlock(fd: int, byte: int) -> None:
    with contextlib.suppress(OSError):
        _set(fd, byte, fcntl.F_UNLCK)


def is_locked(fd: int, byte: int) -> bool:
    """Whether another description has a lock on this byte."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    except OSError:
        return False
    return _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK


def inherited(pid: int, fd: int, file: os.stat_result, byte: int) -> bool:
    """Whether descriptor *fd* of a process is this *file*, with a lock on *byte*."""
    try:
        if not os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), file):
            return False
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii", errors="replace") as told:
            locks = [line.split() for line in told if line.startswith("lock:")]
    except OSError:
        return False
    return any(words[2] == "OFDLCK" and words[-2:] == [str(byte)] * 2 for words in locks)


def _set(fd: int, byte: int, kind: int) -> None:
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))


def _open_folder(path: str) -> int:
    """The folder, made if need be, with a lock on it that keeps systemd-tmpfiles from cleaning it."""
    try:
        os.mkdir(path, _SHARED_FOLDER)
        made = True
    except FileExistsError:
        made = False
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if made and status.st_uid == os.geteuid():
            os.fchmod(fd, _SHARED_FOLDER)
        elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            raise UnusableError(f"{path} can be written by everybody and is not sticky: chmod 1777 {path}")
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return fd  # just now a cleaner has it
    except (OSError, UnusableError):
        os.close(fd)
        raise
    return fd


def _open_file(folder_fd: int, path: str) -> int:
    """Opened without O_CREAT first: in a sticky folder the kernel refuses that for other users' files."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(3):
        try:
            fd = os.open(NAME, flags, dir_fd=folder_fd)
        except FileNotFoundError:
            try:
                fd = os.open(NAME, flags | os.O_CREAT | os.O_EXCL, _SHARED_FILE, dir_fd=folder_fd)
            except FileExistsError:
                continue
        fd = fd if fd >= _LOWEST_FD else _high(fd)
        _check_file(fd, path)
        return fd
    raise UnusableError(f"{path} comes and goes")


def _check_file(fd: int, path: str) -> None:
    """Refuse what is no plain file; mend the mode of our own, which our umask, or a crash, may have spoilt."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(fd)
        raise UnusableError(f"{path} is not a plain file with one name")
    if status.st_uid == os.geteuid() and status.st_mode & _SHARED_FILE != _SHARED_FILE:
        os.fchmod(fd, _SHARED_FILE)


def _high(fd: int) -> int:
    """The same description under a higher number."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_FD)
    finally:
        os.close(fd)


def _words(path: str, error: OSError) -> str:
    return f"{path}: {error.strerror}"
