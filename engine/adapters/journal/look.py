"""Looking at a journal from outside, for whoever does not hold the deck's lock."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3

from ...core.events import Fact
from ...errors import EngineUnavailableError
from .codec import UnknownFactError
from .files import Glance, glance, has_wal, staged
from .reading import CODEC, read, read_facts
from .schema import SCHEMA, refuse_newer


def look_at(path: str, *, live: bool) -> tuple[list[Fact], str]:
    """All sound facts of a journal and what is damaged; no file is made or changed, not even one beside the db: what
    an engine that is gone left in the -wal is read without SQLite's index (-shm), which a read would make or mend.

    *live*: an engine has the db open now. A missing db has no facts.
    Raises EngineUnavailableError: a newer gpudeck wrote it, it cannot be read.
    """
    try:
        if not os.path.exists(path) and os.path.exists(staged(path)):
            path = staged(path)  # an engine was killed while it put this into the place of a damaged one
        seen = glance(path)
        refuse_newer(path, 0 if seen.problem else seen.version, SCHEMA)
        if not live and has_wal(path):
            with contextlib.suppress(sqlite3.Error, OSError):
                return _look_aside(path, seen)
        return read_facts(path)
    except UnknownFactError as error:
        raise EngineUnavailableError(f"{path}: {error}: look with the gpudeck that wrote it") from error
    except (sqlite3.Error, OSError) as error:
        raise EngineUnavailableError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _look_aside(path: str, seen: Glance) -> tuple[list[Fact], str]:
    if os.path.exists(path + "-shm"):
        contents = read(path, CODEC, seen, mode="mode=ro&readonly_shm=1")
        return contents.facts, contents.problem
    import tempfile  # seldom needed

    with tempfile.TemporaryDirectory(prefix="gpudeck-") as folder:
        copy = os.path.join(folder, os.path.basename(path))
        for suffix in ("", "-wal"):
            shutil.copyfile(path + suffix, copy + suffix)
        return read_facts(copy)
