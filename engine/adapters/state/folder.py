"""The state folder of a deck: where it lies, made and found again."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import dataclass
from typing import cast

import msgspec

from ...errors import DeckError, EngineUnavailableError, UsageError
from ..processes import record
from .lock import Machine, left_elsewhere, this_machine
from .mounts import MOUNTS, NETWORK_FILE_SYSTEMS, file_system
from .own_folders import make_leaf, make_root, owners_of, refuse_strange, whose
from .pointer import Pointer, is_here, point_at, read_pointer, refuse_elsewhere
from .private_files import write_private

_LOG_DIRS = "log_dirs"


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
        return sum(not record.read(os.path.join(self.attempts, name)).void for name in os.listdir(self.attempts))

    def running(self) -> int:
        """How many attempts live on this box."""
        wrappers = (record.read(os.path.join(self.attempts, name)).wrapper for name in os.listdir(self.attempts))
        return sum(wrapper is not None and wrapper.living() is not None for wrapper in wrappers)

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
        try:
            with open(os.path.join(self.path, _LOG_DIRS), "rb") as file:
                return msgspec.convert(json.loads(file.read()), list[str])
        except (OSError, ValueError, msgspec.ValidationError):
            return []

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
        pointer = read_pointer(os.path.join(root, f"{stem}.json"))
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
    known = read_pointer(pointer)
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


def _local_root(euid: int, mounts: str) -> str:
    state_home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    for folder in (os.path.join(state_home, "gpudeck"), f"/var/tmp/gpudeck-{euid}"):
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
