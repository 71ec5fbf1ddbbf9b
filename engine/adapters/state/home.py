"""Where a state folder was made: a copy of one must not take the original's running tasks for its own, and one that was
moved with its deck has facts about the place where that was before."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, replace

import msgspec

from .private_files import write_private

_NAME = "home"


@dataclass(frozen=True, slots=True)
class Home:
    """The folder by its path and by what the file system calls it, which stays when it is renamed."""

    path: str
    device: int
    inode: int
    deck: str = ""
    """The folder of the task file; "": an older gpudeck noted this."""
    moved_from: tuple[str, ...] = ()
    """Where that was before."""


def settle_in(state_dir: str, deck: str) -> tuple[str, tuple[str, ...]]:
    """Note where *state_dir* lies, and *deck*, the folder of its task file. Returns the path of the folder that it is a
    copy of, "" when it is none, and where the deck was before.

    A folder that was moved is no copy: the one that it was is not there any more. For the holder of its lock.
    """
    path = os.path.join(state_dir, _NAME)
    noted = _read(path)
    former = () if noted is None else (*noted.moved_from, noted.deck)
    here = replace(
        _home(state_dir), deck=deck, moved_from=tuple(dict.fromkeys(each for each in former if each not in ("", deck)))
    )
    if noted == here:
        return "", here.moved_from
    with contextlib.suppress(OSError):  # on a full disk the next engine notes it
        write_private(path, json.dumps(asdict(here)).encode())
    return _original(noted, here), here.moved_from


def _original(noted: Home | None, here: Home) -> str:
    if noted is None or (noted.device, noted.inode) == (here.device, here.inode):
        return ""
    try:
        there = _home(noted.path)
    except OSError:
        return ""
    same = (there.path, there.device, there.inode) == (noted.path, noted.device, noted.inode)
    return noted.path if same else ""


def _home(folder: str) -> Home:
    found = os.stat(folder)
    return Home(os.path.realpath(folder), found.st_dev, found.st_ino)


def _read(path: str) -> Home | None:
    try:
        with open(path, "rb") as file:
            return msgspec.convert(json.loads(file.read()), Home)
    except (OSError, ValueError, msgspec.ValidationError):
        return None
