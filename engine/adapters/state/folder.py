"""The state folder of a deck: where it lies, made and found again."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import cast

from ...atomic import private, sync_dir, write_first, write_private
from ...errors import DeckError, EngineUnavailableError, UsageError
from .. import host
from ..processes import record
from .environments import read_environment, write_environment
from .home import read_json
from .lock import Machine, left_elsewhere, this_machine
from .mounts import MOUNTS, NETWORK_FILE_SYSTEMS, file_system

_LOG_DIRS = "log_dirs"
_user = partial(host.login_of, nameless="user {}")


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
        """How many attempts have a record, which is dropped when their end is in the journal. Starts that came to
        nothing do not count: their records stay against wrappers that are late."""
        return sum(not record.read(os.path.join(self.attempts, name)).never_ran for name in os.listdir(self.attempts))

    def running(self) -> int:
        """How many attempts live on this box."""
        records = (record.read(os.path.join(self.attempts, name)) for name in os.listdir(self.attempts))
        return sum(each.living() is not None for each in records)

    def left_elsewhere(self) -> str:
        """Where no engine runs the deck: what to say when its tasks were left on another machine; "" when not."""
        try:
            return left_elsewhere(self.path, self.unfinished())
        except OSError:
            return ""

    def former_log_dirs(self, deck: str, log_dir: str) -> tuple[str, ...]:
        """Log folders that the deck had before *log_dir*, the newest first, absolute: attempts that began then have
        their files there. *deck*: the folder of its task file."""
        known = [os.path.normpath(os.path.join(deck, each)) for each in self._log_dirs()]
        return tuple(each for each in dict.fromkeys(reversed(known)) if each != log_dir)

    def note_log_dir(self, deck: str, log_dir: str) -> None:
        """The deck has this one from now on. What lies in its own folder moves with it. For the holder of its lock."""
        known, below = self._log_dirs(), os.path.relpath(log_dir, deck)
        said = log_dir if below.startswith("..") else below
        if known[-1:] == [said]:
            return
        content = json.dumps([*(each for each in known if each != said), said]).encode()
        with contextlib.suppress(OSError):  # on a full disk the next engine notes it
            write_private(os.path.join(self.path, _LOG_DIRS), content)

    def _log_dirs(self) -> list[str]:
        return read_json(os.path.join(self.path, _LOG_DIRS), list[str]) or []

    @property
    def db(self) -> str:
        return os.path.join(self.path, "deck.db")

    @property
    def lock(self) -> str:
        return os.path.join(self.path, "lock")


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
        owners = owners_of(base, euid, as_root)
        kind = file_system(root, mounts)
        if kind not in NETWORK_FILE_SYSTEMS:
            make_root(root, owners)
            return StateDir(make_leaf(os.path.join(root, stem), owners))
        return _beside_network(root, stem, owners, kind, machine or this_machine(), takeover, mounts)
    except OSError as error:
        raise EngineUnavailableError(_unusable(error, root)) from error


def find_state_dir(
    task_file: str, state_dir: str, stem: str, *, machine: Machine | None = None, mounts: str = MOUNTS
) -> StateDir | None:
    """Where the state of a deck lies; None: there is none yet. Nothing is made or changed.

    Raises EngineUnavailableError where it lies on another machine, UsageError where it is somebody else's.
    """
    root = os.path.join(os.path.dirname(os.path.abspath(task_file)), os.path.expanduser(state_dir))
    path = os.path.join(root, stem)
    if file_system(root, mounts) in NETWORK_FILE_SYSTEMS:
        pointer = read_json(os.path.join(root, f"{stem}.json"), Pointer)
        if pointer is not None:
            if not is_here(pointer, machine or this_machine()):
                host = pointer.machine.host
                raise EngineUnavailableError(
                    f"this deck's state lies on {host} in {pointer.path}: ssh -t {host} gpudeck …"
                )
            path = pointer.path
    try:
        os.stat(os.path.join(path, "."))
    except PermissionError:
        raise UsageError(f"{path} {whose(path)}: set state_dir to a folder of yours") from None
    except OSError:
        return None
    return StateDir(path)


def _beside_network(
    root: str, stem: str, owners: tuple[int, ...], kind: str, machine: Machine, takeover: bool, mounts: str
) -> StateDir:
    pointer = os.path.join(root, f"{stem}.json")
    known = read_json(pointer, Pointer)
    if not takeover:
        refuse_elsewhere(known, machine)
    make_root(root, owners)
    local = _local_root(owners[0], mounts)
    if not local:
        warning = (
            f"{root} is on {kind} and no local disk was found: a crash of the file server may lose the deck's state"
        )
        return StateDir(make_leaf(os.path.join(root, stem), owners), warning)
    import hashlib  # loads OpenSSL: only for those who need it

    path = os.path.join(local, hashlib.sha256(os.fsencode(os.path.join(root, stem))).hexdigest()[:16])
    if known and is_here(known, machine) and os.path.isdir(known.path):
        path = known.path
    make_leaf(path, owners)
    point_at(pointer, Pointer(machine, path), known, takeover=takeover)
    return StateDir(path, f"{root} is on {kind}: the deck's state lies in {path}")


def state_home() -> str:
    """Where programs keep what is the user's: $XDG_STATE_HOME, else ~/.local/state. Absolute."""
    return os.path.abspath(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"))


def _local_root(euid: int, mounts: str) -> str:
    for folder in (os.path.join(state_home(), "gpudeck"), f"/var/tmp/gpudeck-{euid}"):
        if file_system(folder, mounts) in NETWORK_FILE_SYSTEMS:
            continue
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            refuse_strange(folder, (euid,))
        except (OSError, DeckError):
            continue
        return folder
    return ""


def _unusable(error: OSError, root: str) -> str:
    path = cast("str", error.filename) or root
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"the deck's state cannot be written to {path} ({error.strerror}): set state_dir to a folder of yours"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left for the deck's state in {path}: free some, or set state_dir to another disk"
    return f"the deck's state cannot be kept in {path}: {error.strerror}"


# -- folders made for their owner only, refused where they are somebody else's ----------------------------------------


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


# -- the file that tells, on a network file system, on which machine and disk the state lies --------------------------


@dataclass(frozen=True, slots=True)
class Pointer:
    """What stays beside the task file when the state lies on a local disk."""

    machine: Machine
    path: str


def is_here(known: Pointer, machine: Machine) -> bool:
    """Whether the state lies on this box. Containers without a machine id may have their name in common with others on
    other hosts: of those the state itself has to be here."""
    if not machine.same_box(known.machine):
        return False
    return bool(machine.machine_id) or machine.boot_id == known.machine.boot_id or os.path.isdir(known.path)


def refuse_elsewhere(known: Pointer | None, machine: Machine) -> None:
    """Raises EngineUnavailableError where the state lies on another machine than *machine*, this one."""
    if known and not is_here(known, machine):
        host = known.machine.host
        raise EngineUnavailableError(
            f"this deck's state lies on {host} in {known.path}: ssh -t {host} gpudeck …; "
            f"or `gpudeck takeover` when {host} is gone"
        )


def point_at(path: str, pointer: Pointer, known: Pointer | None, *, takeover: bool) -> None:
    """Write a pointer file. *known*: what it said before. Raises EngineUnavailableError, unless *takeover*, where
    another machine was first."""
    content = json.dumps(asdict(pointer)).encode()
    if known or takeover or not write_first(path, content):
        if not takeover:
            refuse_elsewhere(read_json(path, Pointer), pointer.machine)
        write_private(path, content)


# -- the environment that tasks get -----------------------------------------------------------------------------------


_ENVIRONMENT = "environment"


def save_environment(state_dir: str, mapping: Mapping[str, str]) -> None:
    """Keep *mapping* for whichever engine runs the deck, readable by its owner only. Raises OSError."""
    write_environment(os.path.join(state_dir, _ENVIRONMENT), mapping)


TELLING = ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH")
"""Variables that decide which programs and packages a task gets."""


def load_environment(state_dir: str) -> dict[str, str] | None:
    """What was kept; None when nothing was."""
    try:
        return read_environment(os.path.join(state_dir, _ENVIRONMENT))
    except FileNotFoundError:
        return None
