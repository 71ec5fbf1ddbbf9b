"""Folders that hold state: made for their owner only, and refused where they are somebody else's."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat

from ...atomic import sync_dir
from ...errors import UsageError
from .private_files import private


def owners_of(base: str, euid: int, as_root: bool) -> tuple[int, ...]:
    """Whose state may be used: ours; and for root, where told so, that of the task file's owner."""
    owner = os.stat(base).st_uid
    if euid != 0 or owner == 0:
        return (euid,)
    if not as_root:
        raise UsageError(
            f"{base} belongs to {_user(owner)}, and root's files in it would lock them out: "
            f"run gpudeck as {_user(owner)}, or give --as-root"
        )
    return (euid, owner)


def make_root(root: str, owners: tuple[int, ...]) -> None:
    """The folder that holds the state of all decks; what exists is only looked at."""
    try:
        os.mkdir(root, 0o700)
    except FileExistsError:
        refuse_strange(root, (*owners, 0))
        if os.path.basename(root) != ".gpudeck":
            return
    else:
        sync_dir(os.path.dirname(root))
    _ignore(root)


def _ignore(root: str) -> None:
    path = os.path.join(root, ".gitignore")
    with contextlib.suppress(FileExistsError), open(path, "xb", opener=private) as file:
        file.write(b"*\n")


def make_leaf(path: str, owners: tuple[int, ...]) -> str:
    """The folder that holds the state of one deck. Returns *path*. Raises OSError and UsageError (`refuse_strange`)."""
    for folder in (path, os.path.join(path, "attempts")):
        try:
            os.mkdir(folder, 0o700)
            sync_dir(os.path.dirname(folder))
        except FileExistsError:
            refuse_strange(folder, owners)
            if stat.S_IMODE(os.stat(folder).st_mode) != 0o700:
                os.chmod(folder, 0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
    return path


def refuse_strange(path: str, owners: tuple[int, ...]) -> None:
    """Raises UsageError unless *path* is a folder, itself, of one of *owners*."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise UsageError(f"{path} is a symbolic link: set state_dir to the folder itself")
    if not stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{path} is no folder: move it away, or set state_dir")
    if found.st_uid not in owners:
        raise UsageError(f"{path} belongs to {_user(found.st_uid)}: set state_dir to a folder of yours")


def whose(path: str) -> str:
    """Whose a folder is that cannot be entered: that of the innermost one above it that can be told."""
    while True:
        try:
            return f"belongs to {_user(os.stat(path).st_uid)}"
        except OSError:
            path = os.path.dirname(path)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
