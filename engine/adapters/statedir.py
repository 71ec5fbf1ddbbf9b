"""The state folder of a deck: where it lies, whose it is, and the environment that is kept in it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

import msgspec

from ..errors import DeckError, EngineUnavailableError, UsageError
from .decklock import Machine, this_machine
from .journal_files import sync_dir
from .mounts import MOUNTS, NETWORK_FILE_SYSTEMS, file_system


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths of a deck's state; the folders exist, 0700 and ours."""

    path: str
    warning: str = ""
    """One line for the user: the state lies elsewhere, or on a network file system."""

    @property
    def attempts(self) -> str:
        """Record files of attempts, by token."""
        return os.path.join(self.path, "attempts")

    def unfinished(self) -> int:
        """How many attempts have a record, which is dropped when their end is in the journal."""
        return len(os.listdir(self.attempts))

    @property
    def db(self) -> str:
        return os.path.join(self.path, "deck.db")

    @property
    def lock(self) -> str:
        return os.path.join(self.path, "lock")


@dataclass(frozen=True, slots=True)
class _Pointer:
    """What stays beside the task file when the state lies on a local disk."""

    machine: Machine
    path: str


def open_state_dir(
    task_file: str,
    state_dir: str,
    stem: str,
    *,
    as_root: bool = False,
    takeover: bool = False,
    euid: int | None = None,
    machine: Machine | None = None,
    mounts: str = MOUNTS,
) -> StateDir:
    """Find or make the state folder of the deck *stem* of *task_file*; *state_dir* is relative to the task file.

    On a network file system the state lies on a local disk, and a pointer file (host, path) stays in *state_dir*.
    Raises UsageError (root in somebody else's folder, somebody else's state, a symbolic link) and
    EngineUnavailableError (cannot be written; the state lies on another machine and not *takeover*).
    """
    euid = os.geteuid() if euid is None else euid
    base = os.path.dirname(os.path.abspath(task_file))
    root = os.path.join(base, os.path.expanduser(state_dir))
    if not stem or "/" in stem or stem in (".", ".."):
        raise UsageError(f'"{stem}" cannot name a deck: it would be no folder inside {root}')
    try:
        owners = _owners(base, euid, as_root)
        kind = file_system(root, mounts)
        if kind not in NETWORK_FILE_SYSTEMS:
            _make_root(root, owners)
            return StateDir(_make_leaf(os.path.join(root, stem), owners))
        return _beside_network(root, stem, owners, kind, machine or this_machine(), takeover, mounts)
    except OSError as error:
        raise EngineUnavailableError(_unusable(error, root)) from error


def _owners(base: str, euid: int, as_root: bool) -> tuple[int, ...]:
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


def _make_root(root: str, owners: tuple[int, ...]) -> None:
    """The folder that holds the state of all decks; what exists is only looked at."""
    try:
        os.mkdir(root, 0o700)
    except FileExistsError:
        _refuse_strange(root, (*owners, 0))
        if os.path.basename(root) != ".gpudeck":
            return
    else:
        sync_dir(os.path.dirname(root))
    _ignore(root)


def _ignore(root: str) -> None:
    path = os.path.join(root, ".gitignore")
    if not os.path.lexists(path):
        with open(path, "x", encoding="utf-8") as file:
            file.write("*\n")


def _make_leaf(path: str, owners: tuple[int, ...]) -> str:
    for folder in (path, os.path.join(path, "attempts")):
        try:
            os.mkdir(folder, 0o700)
            sync_dir(os.path.dirname(folder))
        except FileExistsError:
            _refuse_strange(folder, owners)
            if stat.S_IMODE(os.stat(folder).st_mode) != 0o700:
                os.chmod(folder, 0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)
    return path


def _refuse_strange(path: str, owners: tuple[int, ...]) -> None:
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise UsageError(f"{path} is a symbolic link: set state_dir to the folder itself")
    if not stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{path} is no folder: move it away, or set state_dir")
    if found.st_uid not in owners:
        raise UsageError(f"{path} belongs to {_user(found.st_uid)}: set state_dir to a folder of yours")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _unusable(error: OSError, root: str) -> str:
    path = cast("str", error.filename) or root
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"the deck's state cannot be written to {path} ({error.strerror}): set state_dir to a folder of yours"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left for the deck's state in {path}: free some, or set state_dir to another disk"
    return f"the deck's state cannot be kept in {path}: {error.strerror}"


# Network file systems: the state is on a local disk, found again through a pointer file.


def _beside_network(
    root: str, stem: str, owners: tuple[int, ...], kind: str, machine: Machine, takeover: bool, mounts: str
) -> StateDir:
    pointer = os.path.join(root, f"{stem}.json")
    known = _read_pointer(pointer)
    if known and not takeover and not machine.same_box(known.machine):
        host = known.machine.host
        raise EngineUnavailableError(
            f"this deck's state lies on {host} in {known.path}: ssh -t {host} gpudeck …; "
            f"or gpudeck --headless --takeover when {host} is gone"
        )
    _make_root(root, owners)
    local = _local_root(owners[0], mounts)
    if not local:
        warning = (
            f"{root} is on {kind} and no local disk was found: a crash of the file server may lose the deck's state"
        )
        return StateDir(_make_leaf(os.path.join(root, stem), owners), warning)
    path = os.path.join(local, hashlib.sha256(os.fsencode(os.path.join(root, stem))).hexdigest()[:16])
    if known and machine.same_box(known.machine) and os.path.isdir(known.path):
        path = known.path
    _make_leaf(path, owners)
    write_private(pointer, json.dumps(asdict(_Pointer(machine, path))).encode())
    return StateDir(path, f"{root} is on {kind}: the deck's state lies in {path}")


def _local_root(euid: int, mounts: str) -> str:
    state_home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    for folder in (os.path.join(state_home, "gpudeck"), f"/var/tmp/gpudeck-{euid}"):
        if file_system(folder, mounts) in NETWORK_FILE_SYSTEMS:
            continue
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            _refuse_strange(folder, (euid,))
        except (OSError, DeckError):
            continue
        return folder
    return ""


def _read_pointer(path: str) -> _Pointer | None:
    try:
        with open(path, "rb") as file:
            return msgspec.convert(json.loads(file.read()), _Pointer)
    except (OSError, ValueError, msgspec.ValidationError):
        return None


# The environment that tasks get.


def save_environment(state_dir: str, mapping: Mapping[str, str]) -> None:
    """Keep *mapping* for whichever engine runs the deck, readable by its owner only. Raises OSError."""
    pairs = (os.fsencode(f"{name}={value}") for name, value in mapping.items())
    write_private(os.path.join(state_dir, "environment"), b"\0".join(pairs))


def load_environment(state_dir: str) -> dict[str, str] | None:
    """What was kept; None when nothing was."""
    try:
        with open(os.path.join(state_dir, "environment"), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    pairs = (os.fsdecode(pair).partition("=") for pair in content.split(b"\0") if pair)
    return {name: value for name, _, value in pairs}


def write_private(path: str, content: bytes) -> None:
    """Replace a file, mode 0600: after a crash it holds the old or the new content. Raises OSError."""
    part = path + ".part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            os.fchmod(fd, 0o600)
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    sync_dir(os.path.dirname(path))
