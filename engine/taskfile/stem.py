"""Which state a task file's deck has: where that lies, and what it is called."""

from __future__ import annotations

import os
import re

from .options import RunOptions

STATE_DIR = ".gpudeck"
"""Where a file's decks have their state when it does not say, relative to the file."""
NAME = re.compile(r"[A-Za-z0-9._+-]{1,60}")
"""A profile's or a --name, which become part of it."""
NAME_WORDS = "use letters, digits and . _ - +, at most 60"
_SAYS_STATE_DIR = re.compile(rb"state_dir|\\[uUx]")
"""The key, or an escape, of which it may be made in a quoted one."""


def stem_of(path: str, options: RunOptions) -> str:
    """The name of the state: the file's stem, with `@` and the profile and --name where they are given."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return "@".join([stem, *filter(None, (options.profile, options.name))])


def may_say_state_dir(path: str) -> bool:
    """False: it says nothing of `state_dir`, or cannot be read. Far cheaper to tell than what it says."""
    try:
        with open(path, "rb") as file:
            return _SAYS_STATE_DIR.search(file.read()) is not None
    except (OSError, ValueError):
        return False
