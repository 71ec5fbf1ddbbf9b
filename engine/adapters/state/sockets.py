"""The deck's Unix socket: where it lies, who may open it, and who is at the other end.

The folder is /tmp/gpudeck-UID: what systemd-logind keeps for a user is removed at the last logout, under engines that
live on. Everything in it is reached through the open folder, so that nobody can put another one in its place.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import struct
from dataclasses import dataclass

from ...errors import EngineUnavailableError
from ..host import is_still

FOLDER = "GPUDECK_SOCKET_DIR"
"""Environment variable that names another folder; it must be the user's alone (0700)."""
_BACKLOG = 64
_PEERCRED = struct.Struct("3i")


@dataclass(slots=True)
class Listener:
    """A socket that is bound and listens. Holds its folder open, and a shared lock on it that keeps cleaners away."""

    socket: socket.socket
    address: str
    """Absolute path."""
    _folder: int
    _file: os.stat_result

    def still_there(self) -> bool:
        """False when the socket's file is gone or another: nobody can connect any more."""
        return is_still(self.address, self._file)

    def close(self) -> None:
        """Stop listening and remove the socket's file if it is still ours. Idempotent."""
        if self._folder < 0:
            return
        with contextlib.suppress(OSError):
            if self.still_there():
                os.unlink(os.path.basename(self.address), dir_fd=self._folder)
        self.socket.close()
        os.close(self._folder)
        self._folder = -1


def listen(state_dir: str, *, folder: str | None = None) -> Listener:
    """Bind the socket of the deck whose state lies in *state_dir*. Only for the holder of the deck's lock: a file that
    is left of an earlier engine is replaced.

    Where the shared folder is refused (somebody else's, a link, open to others), the socket lies in *state_dir*.
    Raises EngineUnavailableError when there is no place for it at all.
    """
    import hashlib  # loads OpenSSL: clients do without

    name = hashlib.blake2s(os.fsencode(os.path.realpath(state_dir)), digest_size=8).hexdigest()
    why: OSError | None = None
    mine = (os.geteuid(),)
    shared = folder or _shared()
    # Root may have been told to run a deck in a user's state folder.
    for place, owners in ((shared, mine), (state_dir, mine if os.geteuid() else None)):
        try:
            return _listen_in(place, f"{name}.sock", owners)
        except OSError as error:
            why = error
    raise EngineUnavailableError(f"no socket can be made in {state_dir}: {why and why.strerror}")


def addresses() -> list[str]:
    """Where engines of this user listen on this box, or have: all whose socket lies in the shared folder."""
    try:
        return sorted(os.path.join(_shared(), name) for name in os.listdir(_shared()) if name.endswith(".sock"))
    except OSError:
        return []


def connect(address: str, *, timeout_s: float = 2.0) -> socket.socket:
    """A blocking socket to an engine of this user (or of root); root's to an engine of anybody's. Raises OSError:
    nobody listens there; PermissionError: the folder is not its owner's alone, or somebody else listens."""
    folder = _open_folder(os.path.dirname(address), owners=None if os.geteuid() == 0 else (os.geteuid(), 0))
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        client.settimeout(timeout_s)
        client.connect(f"/proc/self/fd/{folder}/{os.path.basename(address)}")
        if peer_uid(client) not in (os.geteuid(), 0, os.fstat(folder).st_uid):
            raise PermissionError(errno.EPERM, "another user's process listens there", address)
    except OSError:
        client.close()
        raise
    finally:
        os.close(folder)
    client.settimeout(None)
    return client


def peer_uid(connection: socket.socket) -> int:
    """Who is at the other end, as the kernel tells."""
    return _PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))[1]


def _shared() -> str:
    return os.environ.get(FOLDER) or f"/tmp/gpudeck-{os.geteuid()}"


def _listen_in(place: str, name: str, owners: tuple[int, ...] | None) -> Listener:
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)
    folder = _open_folder(place, owners)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bound.bind(f"/proc/self/fd/{folder}/{name}")
            os.chmod(name, 0o600, dir_fd=folder)
            bound.listen(_BACKLOG)
            bound.setblocking(False)
            file = os.lstat(name, dir_fd=folder)
        except OSError:
            bound.close()
            raise
    except OSError:
        os.close(folder)
        raise
    return Listener(bound, os.path.join(place, name), folder, file)


def _open_folder(path: str, owners: tuple[int, ...] | None) -> int:
    """A folder that is one of *owners*' (None: anybody's) and nobody else's, open. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(fd)
    if (owners is not None and found.st_uid not in owners) or stat.S_IMODE(found.st_mode) & 0o077:
        os.close(fd)
        raise PermissionError(errno.EPERM, "this folder is not yours alone", path)
    return fd
