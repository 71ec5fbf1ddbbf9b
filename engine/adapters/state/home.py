"""Where a state folder was made: a copy of one must not take the original's running tasks for its own."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass

import msgspec

from .private_files import write_private

_NAME = "home"


@dataclass(frozen=True, slots=True)
class Home:
    """The folder by its path and by what the file system calls it, which stays when it is renamed."""

    path: str
    device: int
    inode: int


def settle_in(state_dir: str) -> str:
    """Note where *state_dir* lies. Returns the path of the folder that it is a copy of, "" when it is none.

    A folder that was moved is no copy: the one that it was is not there any more. For the holder of its lock.
    """
    here = _home(state_dir)
    path = os.path.join(state_dir, _NAME)
    noted = _read(path)
    if noted == here:
        return ""
    with contextlib.suppress(OSError):  # on a full disk the next engine notes it
        write_private(path, json.dumps(asdict(here)).encode())
    if noted is None or (noted.device, noted.inode) == (here.device, here.inode):
        return ""
    try:
        there = _home(noted.path)
    except OSError:
        return ""
    return noted.path if there == noted else ""


def _home(folder: str) -> Home:
    found = os.stat(folder)
    return Home(os.path.realpath(folder), found.st_dev, found.st_ino)


def _read(path: str) -> Home | None:
    try:
        with open(path, "rb") as file:
            return msgspec.convert(json.loads(file.read()), Home)
    except (OSError, ValueError, msgspec.ValidationError):
        return None
