"""The process that searches a log: a regular expression that never ends, or a file server that hangs, holds up nobody.

`python -m gpudeck.tui.logs.finder JSON` with path, query, origin and direction writes a JSON object a line: hits and
how far it has got, at most ten times a second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ...engine.logs.log_file import MOST_LINE_BYTES, LogFile
from .query import Matcher, Query

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
    at, rest = origin, b""
    while True:
        raw = file.read(at, min(BLOCK_BYTES, file.size - at))
        begin, at = at - len(rest), at + len(raw)
        over = not raw or at >= file.size
        whole, rest = _split(rest + raw, last=over)
        hits = [begin + start for start in matcher.lines(whole)] if whole else []
        reached = begin + (whole.rfind(b"\n") + 1 if over else len(whole))
        step = _limited("after", hits, reached, over=over, room=most_hits)
        yield step
        most_hits -= len(step.hits)
        if step.over:
            return


def _limited(direction: Direction, hits: list[int], reached: int, *, over: bool, room: int) -> Step:
    """A step of *room* hits at most; who goes on comes to the next one."""
    full = len(hits) >= room
    if len(hits) > room:
        reached, hits = hits[room if direction == "after" else room - 1], hits[:room]
    return Step(direction, hits, reached, over or full, full)


def _split(raw: bytes, *, last: bool) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of one; a line that grows without end is cut."""
    if last or len(raw) >= MOST_LINE_BYTES:
        return raw, b""
    end = raw.rfind(b"\n") + 1
    return raw[:end], raw[end:]


def before(file: LogFile, matcher: Matcher, origin: int, most_hits: int = MOST_HITS) -> Iterator[Step]:
    """From *origin* back to the beginning; hits come last line first."""
    at, rest = origin, b""
    while True:
        start = max(0, at - BLOCK_BYTES)
        raw = file.read(start, at - start) + rest
        at = start
        cut = 0 if at == 0 or len(raw) >= MOST_LINE_BYTES else raw.find(b"\n") + 1 or len(raw)
        rest, whole = raw[:cut], raw[cut:]
        hits = [at + cut + begin for begin in reversed(matcher.lines(whole))] if whole else []
        step = _limited("before", hits, at + cut, over=at <= 0, room=most_hits)
        yield step
        most_hits -= len(step.hits)
        if step.over:
            return


TELL_S = 0.1
STUCK_S = 20
"""A block that takes longer ends the search."""
NICENESS = 5
"""The screen and the tasks go first."""


def steps(order: dict[str, Any]) -> Iterator[Step]:
    """Raises OSError where the file cannot be read."""
    file = LogFile(order["path"])
    file.look()
    if file.missing or file.problem:
        raise OSError(file.problem or "it is not there")
    matcher = Matcher(Query(**order["query"]))
    origin: int = min(order["origin"], file.size)
    match order["direction"]:
        case "after":
            return after(file, matcher, origin)
        case "before":
            return before(file, matcher, origin)
        case _:
            return both(file, matcher, origin)


class _Teller:
    """Gathers steps into lines."""

    def __init__(self) -> None:
        self._told_at = 0.0
        self._some = False
        self._clear()

    def _clear(self) -> None:
        self._hits: dict[str, list[int]] = {"after": [], "before": []}
        self._reached: dict[str, tuple[int, bool, bool]] = {}

    def take(self, step: Step) -> None:
        self._hits[step.direction] += step.hits
        self._reached[step.direction] = (step.reached, step.over, step.full)
        first = bool(step.hits) and not self._some
        self._some |= bool(step.hits)
        if first or step.over or time.monotonic() - self._told_at >= TELL_S:
            self.tell()

    def tell(self) -> None:
        if self._reached:
            print(json.dumps({**self._hits, "reached": self._reached}, separators=(",", ":")), flush=True)
            self._clear()
        self._told_at = time.monotonic()


def main() -> int:
    order = json.loads(sys.argv[1])
    parent = os.getppid()
    os.nice(NICENESS)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    teller = _Teller()
    try:
        for step in steps(order):
            signal.alarm(STUCK_S)
            teller.take(step)
            if os.getppid() != parent:
                return 1
        teller.tell()
    except BrokenPipeError:
        os._exit(1)
    except OSError as error:
        print(json.dumps({"problem": error.strerror or str(error)}), flush=True)
    return 0


if __name__ == "__main__":
    signal.alarm(STUCK_S)
    sys.exit(main())
