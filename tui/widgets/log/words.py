"""What the log view says beside the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....engine.logs.printable import printable
from ....engine.text import size_text
from ...drawing.format import cut_middle, width_of
from ...logs.source import LogSource
from ...logs.viewport import Frame

GAP = 2
"""Cells between two parts of the status."""
_LEAST_TITLE = 8
_LEAST_NAME, _MOST_NAME = 4, 32
"""Cells of what is searched for."""


def divider_words(label: str, path: str, frame: Frame, width: int) -> str:
    """The line above the second stream."""
    size = size_text(frame.size) if frame.size else "not there" if frame.missing else "empty"
    words = f"── {printable(label)}  {printable(path.rpartition('/')[2])}  {size} "
    return words + "─" * max(0, width - len(words))


def status_words(source: LogSource, label: str, frame: Frame, search: str, width: int) -> str:
    """The line below all, in *width* cells: what matters least goes first, what a search has found last."""
    search, label = printable(search), printable(label)
    parts = {
        "title": printable(source.title or source.task),
        "attempt": f"attempt {source.attempt} of {source.attempts[-1]}" if len(source.attempts) > 1 else "",
        "rank": f"rank {source.rank} of {source.ranks}" if source.ranks > 1 else "",
        "label": label,
        "size": size_text(frame.size),
        "percent": f"{frame.percent}%",
        "follow": "following" if frame.follow and source.running else "",
        "wrap": "wrapped" if frame.wrap else "",
        "gone": "gone" if frame.missing and frame.size else "",
        "search": cut_middle(search, max(1, width - width_of(label) - GAP)),
    }
    for name in ("wrap", "size", "percent", "follow", "attempt"):
        if width_of(_joined(parts.values())) <= width:
            break
        parts[name] = ""
    over = width_of(_joined(parts.values())) - width
    if over > 0:
        room = width_of(parts["title"]) - over
        parts["title"] = cut_middle(parts["title"], room) if room >= _LEAST_TITLE else ""
    return _joined(parts.values())


def _joined(parts: Iterable[str]) -> str:
    return (" " * GAP).join(part for part in parts if part)


def search_words(name: str, here: str, others: Sequence[tuple[str, int, bool]], width: int) -> str:
    """How a search stands: *here* in the stream that keys act on ("": nothing found), of the *others* the label, the
    number of hits and whether it is still being searched. In *width* cells the name is cut, not what was found."""
    found = _found(here, others)
    return f"{cut_middle(name, min(_MOST_NAME, max(_LEAST_NAME, width - width_of(found) - 1)))} {found}"


def _found(here: str, others: Sequence[tuple[str, int, bool]]) -> str:
    elsewhere = ", ".join(f"{count:,} in {label}" for label, count, _ in others if count)
    if here:
        return here + (f", {elsewhere}" if elsewhere else "")
    if elsewhere:
        return f"not here, {elsewhere}"
    return "…" if any(going for _, _, going in others) else "not found"


def nothing_words(frame: Frame, *, running: bool, pending: bool = False) -> str:
    """For a file without anything to show."""
    if frame.problem:
        return f"cannot be read: {printable(frame.problem)}"
    if frame.missing and pending:
        return "waits in the cluster's queue: nothing written yet"
    if frame.missing:
        return "nothing written yet" if running else "the file is not there (any more)"
    return "empty so far" if running else "empty"
