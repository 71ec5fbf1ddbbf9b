"""How much room each pane of the dashboard has: by itself, and as its user chose. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..acting.actions import Where
from ..widgets.gpu_lines import lay_out

WIDE = 150
"""Columns from which GPUs and log stand beside the table."""
SHORT = 30
"""Rows of the screen below which the host line goes and GPUs are a line each."""
_LEAST_TABLE = 6
_LEAST_LOG = 2
_LOG = (4, 14)
"""Rows of the log, the fewest and the most while others could use them. One of them is the line above it."""
_LEAST_CELLS = 40
"""Of the table, and of what stands beside it."""
_STEP_CELLS = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """None: the pane is hidden."""

    wide: bool
    """GPUs and log stand beside the table."""
    side: int
    """What is beside the table in cells, or below it in rows; 0: nothing is."""
    gpus: int | None
    """Rows."""
    host: int
    log: int | None
    """Rows; 0: it takes what is left."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the user chose, as far as there is room. None: as it comes."""

    side: int | None = None
    """Cells of what stands beside the table."""
    gpus: int | None = None
    log: int | None = None
    hidden: frozenset[Where] = frozenset()


def sizes(
    width: int, height: int, body: int, gpus: int, tasks: int, *, lines: int = 0, chosen: Chosen | None = None
) -> Sizes:
    """*width*, *height*: of the screen, in cells. *body*: rows between header and keys. *gpus*, *tasks*: how many.
    *lines*: of what stands in the place of GPUs, where something does."""
    chosen = chosen or Chosen()
    shows = {pane for pane in ("gpus", "log") if pane not in chosen.hidden}
    host = 1 if height >= SHORT and shows else 0
    if width >= WIDE:
        side = _between(_LEAST_CELLS, chosen.side or width * 2 // 5, width - _LEAST_CELLS) if shows else 0
        most = body * 6 // 10
        panes = min(lines, max(1, most)) if lines else _gpu_rows(gpus, side, most)
        panes = _between(1, panes if chosen.gpus is None else chosen.gpus, body - host - _LEAST_LOG)
        return Sizes(True, side, panes if "gpus" in shows else None, host, 0 if "log" in shows else None)
    log, most = _between(_LOG[0], body // 4, _LOG[1]), 4 if height < SHORT else body * 2 // 5
    panes = min(lines, most) if lines else _gpu_rows(gpus, width, most)
    table = max(_LEAST_TABLE, body - panes - host - log)
    if panes < gpus and tasks:  # all GPUs, rather than rows for tasks that there are not
        more = max(0, min(gpus - panes, table - max(tasks + 1, _LEAST_TABLE)))
        panes, table = panes + more, table - more
    spare = table - (tasks + 1)
    if spare > 0 and tasks:
        log += spare
    room = body - host - _LEAST_TABLE
    least_log = _LEAST_LOG if "log" in shows else 0
    panes = _between(1, panes if chosen.gpus is None else chosen.gpus, room - least_log) if "gpus" in shows else 0
    log = _between(_LEAST_LOG, chosen.log or log, room - panes) if "log" in shows else 0
    return Sizes(False, panes + host + log, panes or None, host, log or None)


def resized(chosen: Chosen, now: Sizes, pane: Where, step: int) -> Chosen:
    """*pane* has *step* rows more than *now*, or the table some cells; what it gains, its neighbour loses."""
    if pane == "tasks" and now.wide:
        return replace(chosen, side=now.side - step * _STEP_CELLS) if now.side else chosen
    if pane == "gpus" or now.log is None:
        step = step if pane == "gpus" else -step
        return chosen if now.gpus is None else replace(chosen, gpus=now.gpus + step)
    if now.wide:  # the log has what the GPUs leave
        return chosen if now.gpus is None else replace(chosen, gpus=now.gpus - step)
    log = now.log + (step if pane == "log" else -step)
    if pane == "tasks" and log < _LEAST_LOG and now.gpus is not None:
        return replace(chosen, gpus=now.gpus - step)
    return replace(chosen, log=log)


def hidden(chosen: Chosen, pane: Where) -> Chosen:
    """Without *pane*; the table is never hidden: with it all are shown again."""
    return replace(chosen, hidden=frozenset[Where]() if pane == "tasks" else chosen.hidden | {pane})


def _gpu_rows(gpus: int, width: int, most: int) -> int:
    most = max(1, most)
    return max(1, min(most, lay_out(gpus, width, most).height)) if gpus else 1


def _between(least: int, wanted: int, most: int) -> int:
    return max(least, min(wanted, most))
