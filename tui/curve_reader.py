"""The process that reads curves from logs: a pattern that never ends, or a file server that hangs, holds up nobody.

`python -m gpudeck.tui.curve_reader JSON` with the paths of an attempt's logs and how its metrics are read writes all
of its curves as a line of JSON, at most once a second, until the attempt has ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..engine.logs.follow import HungError, limited_cpu
from ..engine.logs.growing import MetricsFile, Stream
from ..engine.logs.metrics import documents, finder, numbers_at
from .curves import Curves, Find, to_wire

TAIL_BYTES = 8 << 20
"""Read of each log that was there before."""
PERIOD_S = 1.0
AT_ONCE = 2000
"""Lines after which it may tell what it has."""
ALIKE = 8000
"""Of lines that differ in numbers only so many are looked at."""
PATTERN_CPU_S = 5.0
"""For so many lines; a pattern that computes for longer is given up."""
NICENESS = 10
"""The screen and the tasks go first."""
_SHAPE_CHARS = 32
_NO_DIGITS = str.maketrans("", "", "0123456789.")


def sampled(lines: Sequence[str], most: int = ALIKE) -> list[str]:
    """Evenly fewer of those lines of which there are many; what is said rarely is kept."""
    if len(lines) <= most:
        return list(lines)
    shapes = [line[:_SHAPE_CHARS].translate(_NO_DIGITS) for line in lines]
    every = {shape: -(-count // most) for shape, count in Counter(shapes).items()}
    seen = Counter[str]()
    kept: list[str] = []
    for line, shape in zip(lines, shapes, strict=True):
        if seen[shape] % every[shape] == 0:
            kept.append(line)
        seen[shape] += 1
    return kept


class Reader:
    """One attempt's logs and metrics files."""

    def __init__(self, order: dict[str, Any]) -> None:
        """*order*: "out", "err", "metrics" as `show` tells them, "started" (seconds since the epoch)."""
        self._streams = [Stream(path, TAIL_BYTES) for path in dict.fromkeys((order["out"], order["err"])) if path]
        self._finders: dict[str, Find] = {}
        self._files: list[tuple[str, str, MetricsFile]] = []
        for metric in order["metrics"]:
            if metric["file"]:
                self._files.append((metric["name"], metric["key"], MetricsFile(metric["file"], order["started"])))
            elif metric["regex"]:
                self._finders[metric["name"]] = finder(metric["regex"])
        self.curves = Curves(self._finders, named=bool(order["metrics"]))

    def look(self, *, final: bool) -> Iterator[None]:
        """Read what is new; a step is over whenever some of it has been taken in."""
        for stream in self._streams:
            _, lines = stream.read(final=final)
            lines = sampled(lines)
            for start in range(0, len(lines), AT_ONCE):
                self._feed(lines[start : start + AT_ONCE])
                yield
        for name, key, file in self._files:
            raw = file.read()
            if raw is not None:
                self._take(name, key, raw)
        yield

    def _feed(self, lines: Sequence[str]) -> None:
        at = 0
        while at < len(lines):
            try:
                with limited_cpu(PATTERN_CPU_S):
                    while at < len(lines):
                        line = lines[at]
                        at += 1
                        self.curves.feed(line)
            except (HungError, RecursionError, MemoryError):
                self.curves.forget()

    def _take(self, name: str, key: str, raw: bytes) -> None:
        values = numbers_at(key, documents(raw))
        if len(values) > 1:
            self.curves.replace(name, values)
        elif values:
            self.curves.append(name, values[0])


def run(order: dict[str, Any], tell: Callable[[str], None], alive: Callable[[], bool]) -> None:
    """Until the attempt, which "running" says, is over, or nobody wants to know."""
    reader = Reader(order)
    running: bool = order["running"]
    told, told_at = "", float("-inf")
    while alive():
        for _ in reader.look(final=not running):
            if time.monotonic() - told_at < PERIOD_S:
                continue
            told, told_at = _tell(reader, tell, told), time.monotonic()
        told, told_at = _tell(reader, tell, told), time.monotonic()
        if not running:
            return
        time.sleep(PERIOD_S)


def _tell(reader: Reader, tell: Callable[[str], None], told: str) -> str:
    text = json.dumps(to_wire(reader.curves.curves()), separators=(",", ":"))
    if text != told:
        tell(text)
    return text


def main() -> int:
    parent = os.getppid()
    os.nice(NICENESS)
    try:
        run(json.loads(sys.argv[1]), lambda text: print(text, flush=True), lambda: os.getppid() == parent)
    except BrokenPipeError:
        os._exit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
