"""Goes through a whole log for a query, from a place in it in both directions, so that what is near is found first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .breaks import MOST_BYTES
from .files import LogFile
from .query import Matcher

BLOCK_BYTES = 256 << 10
MOST_HITS = 50_000
"""In each direction; who goes on beyond them searches on from there."""

Direction = Literal["after", "before"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one block held: lines that are hits, in the order they were come upon."""

    direction: Direction
    hits: list[int]
    reached: int
    """Searched from the origin to here."""
    over: bool
    """Nothing is left in this direction, or `full`."""
    full: bool = False


def both(file: LogFile, matcher: Matcher, origin: int) -> Iterator[Step]:
    """Steps in both directions in turns. *origin* is where a line begins."""
    turns = [after(file, matcher, origin), before(file, matcher, origin)]
    while turns:
        for turn in tuple(turns):
            step = next(turn, None)
            if step is None:
                turns.remove(turn)
            else:
                yield step


def after(file: LogFile, matcher: Matcher, origin: int, most_hits: int = MOST_HITS) -> Iterator[Step]:
    """From *origin* to the end, also of the last line, which may still grow: `reached` stays before it."""
    at, rest, count = origin, b"", 0
    while True:
        raw = file.read(at, min(BLOCK_BYTES, file.size - at))
        begin, at = at - len(rest), at + len(raw)
        over = not raw or at >= file.size
        whole, rest = _split(rest + raw, last=over)
        hits = [begin + start for start in matcher.lines(whole)] if whole else []
        reached = begin + (whole.rfind(b"\n") + 1 if over else len(whole))
        room = most_hits - count
        count += len(hits)
        if len(hits) > room:
            reached, hits = hits[room], hits[:room]
        full = count >= most_hits
        yield Step("after", hits, reached, over or full, full)
        if over or full:
            return


def _split(raw: bytes, *, last: bool) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of one; a line that grows without end is cut."""
    if last or len(raw) >= MOST_BYTES:
        return raw, b""
    end = raw.rfind(b"\n") + 1
    return raw[:end], raw[end:]


def before(file: LogFile, matcher: Matcher, origin: int, most_hits: int = MOST_HITS) -> Iterator[Step]:
    """From *origin* back to the beginning; hits come last line first."""
    at, rest, count = origin, b"", 0
    while True:
        start = max(0, at - BLOCK_BYTES)
        raw = file.read(start, at - start) + rest
        at = start
        cut = 0 if at == 0 or len(raw) >= MOST_BYTES else raw.find(b"\n") + 1 or len(raw)
        rest, whole = raw[:cut], raw[cut:]
        hits = [at + cut + begin for begin in reversed(matcher.lines(whole))] if whole else []
        over, reached = at <= 0, at + cut
        room = most_hits - count
        count += len(hits)
        if len(hits) > room:
            reached, hits = hits[room - 1], hits[:room]
        full = count >= most_hits
        yield Step("before", hits, reached, over or full, full)
        if over or full:
            return
