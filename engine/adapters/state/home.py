"""Where a state folder was made: a copy of one must not take the original's running tasks for its own, and one that was
moved with its deck has facts about the place where that was before."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

import msgspec

from ...atomic import write_private

_NAME = "home"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a state is: the name of its task file, and the profile and name that it is run under; "": none."""

    file: str
    profile: str = ""
    name: str = ""

    def __str__(self) -> str:
        words = (("--profile", self.profile), ("--name", self.name))
        return " ".join([self.file, *(f"{option} {value}" for option, value in words if value)])


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
    owner: Owner | None = None
    """None: an older gpudeck noted this."""


def settle_in(state_dir: str, deck: str, owner: Owner) -> tuple[str, tuple[str, ...]]:
    """Note where *state_dir* lies, *deck*, the folder of its task file, and whose it is. Returns the path of the folder
    that it is a copy of, "" when it is none, and where the deck was before.

    A folder that was moved is no copy: the one that it was is not there any more. For the holder of its lock.
    """
    path = os.path.join(state_dir, _NAME)
    noted = _read(path)
    former = () if noted is None else (*noted.moved_from, noted.deck)
    moved_from = tuple(dict.fromkeys(each for each in former if each not in ("", deck)))
    here = replace(_home(state_dir), deck=deck, moved_from=moved_from, owner=owner)
    if noted == here:
        return "", here.moved_from
    with contextlib.suppress(OSError):  # on a full disk the next engine notes it
        write_private(path, json.dumps(asdict(here)).encode())
    return _original(noted, here), here.moved_from


def owner_in(state_dir: str) -> tuple[Owner, str] | None:
    """Whose the state is that lies there, and where its task file is, or was, by now; None: nobody has noted it."""
    noted = _read(os.path.join(state_dir, _NAME))
    if noted is None or noted.owner is None:
        return None
    return noted.owner, relocation(state_dir)(os.path.join(noted.deck, noted.owner.file))


def relocation(state_dir: str) -> Callable[[str], str]:
    """Tells where a path that a deck's journal names lies by now: also of a deck that was moved, or copied, with its
    state and that no engine has opened since."""
    noted = _read(os.path.join(state_dir, _NAME))
    if noted is None or not noted.deck:
        return str
    here, former, deck = os.path.realpath(state_dir), noted.moved_from, noted.deck
    inside = os.path.relpath(noted.path, os.path.realpath(deck))
    if noted.path != here and here.endswith(f"/{inside}"):
        former, deck = (deck, *former), here.removesuffix(f"/{inside}")
    return lambda path: moved(path, former, deck)


def moved(path: str, former: Iterable[str], folder: str) -> str:
    """Where a path lies of a deck whose folder was one of *former* and is *folder* now."""
    for each in former:
        if path.startswith(f"{each}/"):
            return folder + path[len(each) :]
    return path


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
