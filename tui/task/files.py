"""What an attempt left in its folder. Reading blocks, and the folder may lie on a file server: see `Aside`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...engine.logs.digest import digest
from ...engine.logs.ran import words_in
from ...engine.logs.told import read_record

_LINES = 20
KEPT = 50
"""Of so many attempts."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where one attempt's files are."""

    json: str
    out: str
    err: str
    ended: bool
    failed: bool = False
    """The end of what it wrote is of interest."""


@dataclass(frozen=True, slots=True)
class Left:
    """What they say. Empty where they say nothing."""

    digest: tuple[str, ...] = ()
    git: str = ""
    host: str = ""
    end: Mapping[str, Any] | None = None
    """Under `end` in attempt-N.json."""
    command: tuple[str, ...] = ()
    """What it executed."""
    snapshot: str = ""
    """The copy of the code that it ran."""


def read(files: Files) -> Left:
    """Blocks. Raises nothing."""
    record = read_record(files.json)
    lines = digest(files.err, files.out, _LINES) if files.failed else ()
    end = record.get("end")
    return Left(
        lines,
        git_text(record.get("git")),
        str(record.get("host") or ""),
        cast("Mapping[str, Any]", end) if isinstance(end, dict) else None,
        words_in(record),
        str(record.get("snapshot") or ""),
    )


def git_text(git: object) -> str:
    """ "1a2b3c4d5e on main, with changes"."""
    if not isinstance(git, dict):
        return ""
    state = cast("Mapping[str, Any]", git)
    commit = str(state.get("commit") or "")[:10] or "no commit yet"
    branch = f" on {state['branch']}" if state.get("branch") else ""
    return f"{commit}{branch}" + (", with changes that are not committed" if state.get("dirty") else "")
