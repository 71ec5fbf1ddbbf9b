"""How the dashboard divides its rows between tasks, GPUs and log. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..gpus.layout import lay_out

WIDE = 150
"""Columns from which GPUs and log stand beside the table."""
SHORT = 30
"""Rows of the screen below which the host line goes and GPUs are a line each."""
_LEAST_TABLE = 6
_LOG = (4, 14)
"""Rows of the log, the fewest and the most while others could use them. One of them is the line above it."""


@dataclass(frozen=True, slots=True)
class Heights:
    wide: bool
    gpus: int
    host: int
    log: int
    """0 where the log takes what is left."""

    @property
    def side(self) -> int:
        return self.gpus + self.host + self.log


def heights(width: int, height: int, body: int, gpus: int, tasks: int, *, lines: int = 0) -> Heights:
    """*width*, *height*: of the screen, in cells. *body*: rows between header and keys. *gpus*, *tasks*: how many.
    *lines*: of what stands in the place of GPUs, where something does."""
    host = 0 if height < SHORT else 1
    if width >= WIDE:
        side, most = width * 2 // 5, body * 6 // 10
        return Heights(True, min(lines, max(1, most)) if lines else _gpu_rows(gpus, side, most), host, 0)
    log = min(max(body // 4, _LOG[0]), _LOG[1])
    most = 4 if height < SHORT else body * 2 // 5
    panes = min(lines, most) if lines else _gpu_rows(gpus, width, most)
    table = max(_LEAST_TABLE, body - panes - host - log)
    if panes < gpus and tasks:  # all GPUs, rather than rows for tasks that there are not
        more = max(0, min(gpus - panes, table - max(tasks + 1, _LEAST_TABLE)))
        panes, table = panes + more, table - more
    spare = table - (tasks + 1)
    if spare > 0 and tasks:
        log += spare
    return Heights(False, panes, host, max(2, min(log, body - panes - host - _LEAST_TABLE)))


def _gpu_rows(gpus: int, width: int, most: int) -> int:
    most = max(1, most)
    return max(1, min(most, lay_out(gpus, width, most).height)) if gpus else 1
