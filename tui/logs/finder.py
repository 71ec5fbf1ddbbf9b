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
from typing import Any

from . import scan
from .files import LogFile
from .query import Matcher, Query

TELL_S = 0.1
STUCK_S = 20
"""A block that takes longer ends the search."""
NICENESS = 5
"""The screen and the tasks go first."""


def steps(order: dict[str, Any]) -> Iterator[scan.Step]:
    """Raises OSError where the file cannot be read."""
    file = LogFile(order["path"])
    file.look()
    if file.missing or file.problem:
        raise OSError(file.problem or "it is not there")
    matcher = Matcher(Query(**order["query"]))
    origin: int = min(order["origin"], file.size)
    match order["direction"]:
        case "after":
            return scan.after(file, matcher, origin)
        case "before":
            return scan.before(file, matcher, origin)
        case _:
            return scan.both(file, matcher, origin)


class _Teller:
    """Gathers steps into lines."""

    def __init__(self) -> None:
        self._told_at = 0.0
        self._some = False
        self._clear()

    def _clear(self) -> None:
        self._hits: dict[str, list[int]] = {"after": [], "before": []}
        self._reached: dict[str, tuple[int, bool, bool]] = {}

    def take(self, step: scan.Step) -> None:
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
