"""What engines that ended early left in the control folder, and nobody will ask for again."""

from __future__ import annotations

import contextlib
import os
import time

from .jobfiles import VOID, claimed_by

_BATCH_S = 7 * 86_400.0
"""By then an array's elements are known by their job ids, or have begun."""
_VOID_S = 60 * 86_400.0
"""So long a job that was given up may stand in a queue and find its claim taken."""


def sweep(folder: str) -> None:
    """Remove old files of arrays, and old claims of jobs that were never to run. What tells how an attempt ended stays:
    another deck may have its logs here, too. Blocks; raises nothing."""
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            token, _, kind = entry.name.partition(".")
            limit_s = {"map": _BATCH_S, "sh": _BATCH_S, "claim": _VOID_S}.get(kind)
            with contextlib.suppress(OSError):
                if limit_s is None or now - entry.stat().st_mtime < limit_s:
                    continue
                if kind != "claim" or claimed_by(folder, token) == VOID:
                    os.unlink(entry.path)
