"""What earlier engines left in the folder of records: ends that were not completed, and attempts that live."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable

from ..adapters.processes import record
from ..core.events import AttemptEnded, AttemptStarting
from ..core.recorded import Recorded
from ..core.spec import DeckFile
from ..errors import UsageError

OLD_RECORD_S = 3600.0
"""A wrapper that was late for its start has come and gone by then."""

Unsettled = tuple[AttemptEnded, AttemptStarting]
"""An end in the journal of which the rest (attempt-N.json, dropping the record) may not have been done."""


def unsettled(left: Collection[str], told: Recorded) -> list[Unsettled]:
    """Ends on disk whose record still stands, by the tokens of all records *left*: a crash came between the fact and
    what follows from it."""
    pairs = ((end, told.starts.get(key)) for key, end in told.ends.items()) if left else ()
    return [(end, start) for end, start in pairs if start is not None and start.token in left]


def sweep_records(attempts_dir: str, keep: Iterable[str]) -> None:
    """Drop records that no attempt needs any more: of starts that came to nothing, long ago."""
    kept = set(keep)
    limit = time.time() - OLD_RECORD_S
    with os.scandir(attempts_dir) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name not in kept and entry.stat().st_mtime < limit:
                    os.unlink(entry.path)


def refuse_strangers(attempts_dir: str, file: DeckFile, told: Recorded) -> None:
    """Attempts of this deck that run and that its journal, lost or cut short by damage, does not know: the deck would
    start them a second time. Only their records tell. Raises UsageError that names each with its session leader."""
    lines: list[str] = []
    for token in sorted(set(os.listdir(attempts_dir)) - told.tokens):
        wrapper = record.read(os.path.join(attempts_dir, token)).wrapper
        if wrapper is not None and wrapper.living():
            lines.append(
                f"{file.shown}: an attempt still runs (pid {wrapper.pid}) that the journal does not know: wait for its "
                f"end, or end it: kill -- -{wrapper.pid}"
            )
    if lines:
        raise UsageError("\n".join(lines))
