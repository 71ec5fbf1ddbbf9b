"""Which task file is meant when none is named, and which state it has."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from ..errors import UsageError
from .options import RunOptions

NAME = "tasks.toml"
_STATE = re.compile(r"tasks(?:@[^/]+)?(?:\.json)?")
"""What a deck of such a file has in .gpudeck, under any profile and --name; .json points to another disk."""


def find_task_file(argument: str | None, environ: Mapping[str, str], cwd: str) -> str:
    """The file given, else $GPUDECK_FILE, else tasks.toml in *cwd* or the nearest folder above; relative to *cwd*.

    Where there is none, but the state of a deck whose file was moved away: that file, since its engine may run on.
    Raises UsageError when there is neither. Folders above that anyone may write to are passed over: what lies in /tmp
    may be somebody else's, and its commands would run.
    """
    if argument is not None:
        return argument
    if environ.get("GPUDECK_FILE"):
        return environ["GPUDECK_FILE"]
    folder = start = os.path.abspath(cwd)
    gone = ""
    while True:
        path = os.path.join(folder, NAME)
        if folder == start or not _open_to_all(folder):
            if os.path.isfile(path):
                return os.path.relpath(path, cwd)
            if not gone and _has_state(folder):
                gone = path
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
    if gone:
        return os.path.relpath(gone, cwd)
    raise UsageError(f"no {NAME} here or above: `gpudeck init` writes one; `gpudeck run -- CMD` needs none")


def _has_state(folder: str) -> bool:
    try:
        return any(map(_STATE.fullmatch, os.listdir(os.path.join(folder, STATE_DIR))))
    except OSError:
        return False


def _open_to_all(folder: str) -> bool:
    return bool(os.stat(folder).st_mode & stat.S_IWOTH)


STATE_DIR = ".gpudeck"
"""Where a file's decks have their state when it does not say, relative to the file."""
STATE_NAME = re.compile(r"[A-Za-z0-9._+-]{1,60}")
"""A profile's or a --name, which become part of it."""
STATE_NAME_WORDS = "use letters, digits and . _ - +, at most 60"
_SAYS_STATE_DIR = re.compile(rb"state_dir|\\[uUx]")
"""The key, or an escape, of which it may be made in a quoted one."""


def stem_of(path: str, options: RunOptions) -> str:
    """The name of the state: the file's stem, with `@` and the profile and --name where they are given."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return "@".join([stem, *filter(None, (options.profile, options.name))])


def default_log_dir(stem: str) -> str:
    """Where logs go when nothing is said, relative to the task file."""
    return "logs" if stem == "tasks" else os.path.join("logs", stem)


def may_say_state_dir(path: str) -> bool:
    """False: it says nothing of `state_dir`, or cannot be read. Far cheaper to tell than what it says."""
    try:
        with open(path, "rb") as file:
            return _SAYS_STATE_DIR.search(file.read()) is not None
    except (OSError, ValueError):
        return False
