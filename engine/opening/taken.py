"""The task file as its deck has taken it, kept beside the journal: edits are compared with it while no engine runs."""

from __future__ import annotations

import contextlib
import os

from ..atomic import write_atomic
from ..core.spec import DeckFile

NAME = "taken.toml"


def keep(state: str, file: DeckFile) -> None:
    """Remember *file* in the state folder. Where that cannot be done nothing is remembered; that of a part of a file
    changes nothing."""
    path, content = os.path.join(state, NAME), file.text.encode()
    if not content or load(state) == content:
        return
    try:
        write_atomic(path, content, mode=0o600)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)


def load(state: str) -> bytes | None:
    """What was taken last; None: nobody knows."""
    try:
        with open(os.path.join(state, NAME), "rb") as file:
            return file.read()
    except OSError:
        return None
