"""Files that are written whole or not at all, and such that only their owner may read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import uuid

_LOOK_S = 0.01


def write_atomic(
    path: str, content: bytes, *, mode: int | None = None, durable: bool = True, draft: str = "", kept: bool = False
) -> None:
    """Replace a file, or make it. *mode*: its permissions, whatever the umask; None: those of any new file. *kept*: it
    is there, and its owner and permissions stay.
    *durable*: after a power cut, too, it holds the old or the new content. *draft*: what it is called until it is
    whole, where nobody else may write it: what a crash has left under that name is written over.

    Raises OSError; the file is as before then.
    """
    draft = draft or f"{path}.{os.getpid()}~"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(draft, flags, 0o666 if mode is None else mode)
    try:
        with open(fd, "wb") as file:
            if mode is not None:
                os.fchmod(fd, mode)
            if kept:
                take_after(fd, path)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(fd)
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    if durable:
        sync_dir(os.path.dirname(path))


def write_named(path: str, content: bytes) -> None:
    """Write a file that a user has named: of a link what it leads to is replaced, a device or a pipe gets the content.
    Raises OSError."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(content)
    else:
        write_atomic(os.path.realpath(path), content, durable=False)


def take_after(fd: int, path: str) -> None:
    """Owner and mode as the file at *path* has them; the owner as far as this user may give it. Raises OSError."""
    told = os.stat(path)
    for owner in (told.st_uid, -1):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, owner, told.st_gid)
            break
    os.fchmod(fd, told.st_mode & 0o7777)


def sync_dir(path: str) -> None:
    """Make new and renamed names in a folder durable."""
    fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def private(path: str, flags: int) -> int:
    """For `open(opener=)`: what it makes is 0600 whatever the umask."""
    return os.open(path, flags, 0o600)


def write_private(path: str, content: bytes) -> None:
    """Replace a file, mode 0600: after a crash it holds the old or the new content. Raises OSError."""
    write_atomic(path, content, mode=0o600)


def write_first(path: str, content: bytes) -> bool:
    """Make a file that does not exist yet, whole and 0600: one of two hosts that start at once does. False: it was not
    made."""
    own = f"{path}.{uuid.uuid4().hex}"
    write_private(own, content)
    try:
        os.link(own, path)
    except OSError:  # it exists, or the file system has no links
        return False
    finally:
        os.unlink(own)
    return True


def lock(fd: int, patience_s: float) -> bool:
    """Take the kernel's lock on an open file or folder, which its end gives back. False: others have it still. Raises
    OSError where the file system knows none."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
