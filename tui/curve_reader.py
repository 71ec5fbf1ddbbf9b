"""The process that reads curves: a pattern that never ends, or a file server that hangs, holds up nobody.

`python -m gpudeck.tui.curve_reader JSON` with a list of attempts, each the paths of its files and how its metrics are
read, writes a line of JSON whenever it knows more of one, at most once a second each: its place in the list and all of
its curves, until all attempts have ended. The curves that the engine keeps are true; logs are read for what it did
not keep.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from ..engine.logs.curves import Curve, Curves, Find, from_wire, read_kept, to_wire
from ..engine.logs.follow import HungError, limited_cpu
from ..engine.logs.growing import MetricsFile, Stream
from ..engine.logs.metrics import documents, finder, numbers_at
from .background import lines_from

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
    """What is kept of one attempt; where that is not all, its logs and metrics files."""

    def __init__(self, order: dict[str, Any]) -> None:
        """*order*: "kept", "out", "err", "metrics" as `show` tells them, "started" (seconds since the epoch)."""
        self._kept_path: str = order["kept"]
        self._kept_seen: tuple[int, int] | None = None
        self._kept: dict[str, Curve] = {}
        self._asked = [metric["name"] for metric in order["metrics"]]
        self._streams = [Stream(path, TAIL_BYTES) for path in dict.fromkeys((order["out"], order["err"])) if path]
        self._finders: dict[str, Find] = {}
        self._files: list[tuple[str, str, MetricsFile]] = []
        for metric in order["metrics"]:
            if metric["file"]:
                self._files.append((metric["name"], metric["key"], MetricsFile(metric["file"], order["started"])))
            elif metric["regex"]:
                self._finders[metric["name"]] = finder(metric["regex"])
        self._read = Curves(self._finders, named=bool(order["metrics"]))

    @property
    def curves(self) -> list[Curve]:
        return [*self._kept.values(), *(curve for curve in self._read.curves() if curve.name not in self._kept)]

    def _read_kept(self) -> bool:
        """Whether that is all that there is to read."""
        with suppress(OSError, ValueError):
            found = os.stat(self._kept_path)
            seen = (found.st_ino, found.st_mtime_ns)
            if seen != self._kept_seen:
                self._kept_seen = seen
                self._kept = {curve.name: curve for curve in read_kept(self._kept_path).curves}
        return bool(self._kept) and all(name in self._kept for name in self._asked)

    def look(self, *, final: bool) -> Iterator[None]:
        """Read what is new; a step is over whenever some of it has been taken in."""
        if self._read_kept():
            yield
            return
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
                        self._read.feed(line)
            except (HungError, RecursionError, MemoryError):
                self._read.forget()

    def _take(self, name: str, key: str, raw: bytes) -> None:
        self._read.told(name, numbers_at(key, documents(raw)))


def run(orders: Sequence[dict[str, Any]], tell: Callable[[str], None], alive: Callable[[], bool]) -> None:
    """Until all attempts, which "running" says, are over, or nobody wants to know."""
    readers = {place: Reader(order) for place, order in enumerate(orders)}
    told: dict[int, str] = {}
    while readers and alive():
        for place, reader in list(readers.items()):
            running: bool = orders[place]["running"]
            told_at = float("-inf")
            for _ in reader.look(final=not running):
                if time.monotonic() - told_at >= PERIOD_S:
                    _tell(place, reader, tell, told)
                    told_at = time.monotonic()
            _tell(place, reader, tell, told)
            if not running:
                del readers[place]
        if readers:
            time.sleep(PERIOD_S)


def _tell(place: int, reader: Reader, tell: Callable[[str], None], told: dict[int, str]) -> None:
    text = json.dumps([place, to_wire(reader.curves)], separators=(",", ":"))
    if text != told.get(place):
        told[place] = text
        tell(text)


async def curves_of(orders: Sequence[Mapping[str, Any]]) -> AsyncGenerator[tuple[int, tuple[Curve, ...]], None]:
    """What such a process tells, until it ends or nobody listens. Raises OSError."""
    async with aclosing(lines_from("curve_reader", json.dumps(orders))) as lines:
        async for line in lines:
            with suppress(ValueError):  # it was killed within a line
                place, said = json.loads(line)
                yield place, from_wire(said)


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
