"""Where lines begin and end, found from any byte of a file in both directions without an index of it.

A position is a byte offset, so that opening, jumping and scrolling cost the same in a log of a kilobyte and of a
terabyte, and nothing is kept in memory for it.
"""

from __future__ import annotations

from .files import LogFile

MOST_BYTES = 16 << 20
"""Lines without end (bars that write only `\\r`, binary output) are broken where a multiple of this has no line break
in as many bytes before it: decided on the spot, hence the same from both directions."""
_STEPS = (8 << 10, 64 << 10, 1 << 20)
_WORTH_KEEPING_BYTES = 256 << 10


class Breaks:
    """The lines of a file. Offsets that are asked for lie within it."""

    def __init__(self, file: LogFile, most_bytes: int = MOST_BYTES) -> None:
        self._file = file
        self._most = most_bytes
        self._generation = -1
        self._clear = (0, 0)
        """A long stretch that is known to have no line break: the end of a bar that is still growing."""

    def start(self, offset: int) -> int:
        """Where the line begins that the byte at *offset* belongs to; its line break belongs to it too."""
        self._renew()
        edge = offset // self._most * self._most
        found = self._back(edge, offset)
        if found is not None or edge == 0:
            return found or 0
        below = self._back(edge - self._most, edge)
        return edge if below is None else below

    def end(self, start: int) -> tuple[int, int]:
        """Of the line that begins at *start*: where it ends, and where the next one begins."""
        self._renew()
        ceiling = self._file.size
        edge = (start // self._most + 1) * self._most
        at = start
        while True:
            stop = min(edge, ceiling)
            found = self._forth(at, stop)
            if found is not None:
                return found, found + 1
            if stop == ceiling or start <= edge - self._most:
                return stop, stop
            at, edge = stop, edge + self._most

    def _back(self, low: int, high: int) -> int | None:
        """The last place in *low* + 1 to *high* that follows a line break."""
        at, step = high, 0
        while at > low:
            first, last = self._clear
            if first < at <= last:
                at = first
                continue
            begin = max(low, at - _STEPS[min(step, len(_STEPS) - 1)], last if last < at else 0)
            found = self._file.read(begin, at - begin).rfind(b"\n")
            if found >= 0:
                self._keep(begin + found + 1, high)
                return begin + found + 1
            at, step = begin, step + 1
        self._keep(max(at, low), high)
        return None

    def _forth(self, at: int, high: int) -> int | None:
        """The first line break in *at* to *high*."""
        low, step = at, 0
        while at < high:
            first, last = self._clear
            if first <= at < last:
                at = last
                continue
            count = min(high - at, _STEPS[min(step, len(_STEPS) - 1)])
            raw = self._file.read(at, count)
            found = raw.find(b"\n")
            if found >= 0:
                self._keep(low, at + found)
                return at + found
            if not raw:
                break
            at, step = at + len(raw), step + 1
        self._keep(low, min(at, high))
        return None

    def _keep(self, low: int, high: int) -> None:
        if high - low >= _WORTH_KEEPING_BYTES:
            self._clear = (low, high)

    def _renew(self) -> None:
        if self._generation != self._file.generation:
            self._generation, self._clear = self._file.generation, (0, 0)
