"""The part of a log that is seen. It stands on a byte offset, so that growth at the end moves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len

from ...engine.logs.log_file import MOST_LINE_BYTES, Breaks, LogFile
from .lines import Line, Span, read_line


def cuts(text: str, width: int) -> tuple[int, ...]:
    """Where the rows of a text begin, in characters: 0 first. A character of two cells is never cut; one that is wider
    than *width* has a row of its own."""
    width = max(1, width)
    if len(text) <= width // 2:
        return (0,)
    if text.isascii():
        return tuple(range(0, max(1, len(text)), width))
    found = [0]
    used = 0
    for index, character in enumerate(text):
        cells = cell_len(character)
        if used + cells > width and index > found[-1]:
            found.append(index)
            used = 0
        used += cells
    return tuple(found)


def spans_between(spans: tuple[Span, ...], start: int, end: int) -> tuple[Span, ...]:
    """The spans of a row, counted from its beginning."""
    return tuple(
        Span(max(first, start) - start, min(last, end) - start, sgr)
        for first, last, sgr in spans
        if first < end and last > start
    )


MOST_ROWS = 100
"""`Frame.total` counts no further."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the screen."""

    line: int
    """Offset of the line that it belongs to."""
    part: int
    """Which row of that line it is, from 0."""
    text: str
    spans: tuple[Span, ...] = ()
    note: int = 0
    """So many characters at its end are said by us, not by the log."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What is to be seen now."""

    rows: tuple[Row, ...] = ()
    size: int = 0
    """Of the file, bytes."""
    top: int = 0
    """Offset of the first line seen, and of what follows the last one."""
    below: int = 0
    at_end: bool = True
    at_start: bool = True
    follow: bool = False
    wrap: bool = False
    total: int = 0
    """Rows of the whole file, at most `MOST_ROWS`."""
    missing: bool = False
    problem: str = ""
    generation: int = 0
    asked: bool = True
    """Somebody moved; else only the file has changed."""

    @property
    def percent(self) -> int:
        """How far the last line seen lies in the file."""
        return 100 if self.at_end or not self.size else min(99, 100 * self.below // self.size)


class LinePart(NamedTuple):
    line: int
    part: int


class Viewport:
    """Moves over one file. One thread, the file's."""

    def __init__(self, file: LogFile, *, most_line_bytes: int = MOST_LINE_BYTES) -> None:
        self._file = file
        self._breaks = Breaks(file, most_line_bytes)
        self._width, self._height = 80, 24
        self._wrap = False
        self.follow = False
        self._top = LinePart(0, 0)
        self._known = file.generation
        self._long = False
        """It has `MOST_ROWS` lines, and logs only grow."""

    # -- moves --------------------------------------------------------------------------------------------------------

    def resize(self, width: int, height: int) -> None:
        self._width, self._height = max(1, width), max(1, height)
        self._top = LinePart(self._top.line, 0) if self._wrap else self._top

    def wrap(self, on: bool) -> None:
        self._wrap = on
        self._top = LinePart(self._top.line, 0)

    def set_follow(self, on: bool) -> None:
        """Switched off, it stays where it is."""
        if self.follow and not on:
            self._top = self._last_top()
        self.follow = on

    def scroll(self, rows: int) -> None:
        """Down by *rows*, or up; down to the end follows, up does not."""
        if rows < 0:
            self.set_follow(False)
            self._top = self._back(self._top, -rows)
        elif not self.follow:
            self._top = self._forth(self._top, rows)
            self.follow = self._top >= self._last_top()

    def page(self, pages: int) -> None:
        """A page shares a row with the one before."""
        self.scroll(pages * max(1, self._height - 1))

    def home(self) -> None:
        self.follow = False
        self._top = LinePart(0, 0)

    def end(self) -> None:
        self.follow = True

    def seek(self, offset: int) -> None:
        """Show the line with the byte at *offset*, a third down."""
        self.follow = False
        if not self._file.size:
            return
        line = self._breaks.start(min(max(0, offset), self._file.size - 1))
        self._top = self._back(LinePart(line, 0), self._height // 3)

    def seek_fraction(self, fraction: float) -> None:
        """Show what lies there in the file: 0 is the beginning, 1 the end."""
        if fraction >= 1:
            return self.end()
        self.follow = False
        if self._file.size:
            self._top = LinePart(self._breaks.start(int(max(0.0, fraction) * self._file.size)), 0)
        return None

    # -- what is seen -------------------------------------------------------------------------------------------------

    def frame(self, *, asked: bool = True) -> Frame:
        self._renew()
        file = self._file
        last = self._last_top()
        self._top = last if self.follow else min(self._top, last)
        rows: list[Row] = []
        below = self._top.line
        for line, found in self._from(self._top.line):
            skipped = self._top.part if line.start == self._top.line else 0
            rows += found[skipped : skipped + self._height - len(rows)]
            below = line.next
            if len(rows) >= self._height:
                break
        return Frame(
            rows=tuple(rows), size=file.size, top=self._top.line, below=below, at_end=self._top >= last,
            at_start=self._top == (0, 0), follow=self.follow, wrap=self._wrap, total=self._total(),
            missing=file.missing, problem=file.problem, generation=file.generation, asked=asked,
        )  # fmt: skip

    def _renew(self) -> None:
        if self._file.generation == self._known:
            return
        self._known = self._file.generation
        self._top, self._long = LinePart(0, 0), False

    def _total(self) -> int:
        if self._long:
            return MOST_ROWS
        lines = count = 0
        for _, rows in self._from(0):
            lines, count = lines + 1, count + len(rows)
            if count >= MOST_ROWS:
                self._long = lines >= MOST_ROWS
                return MOST_ROWS
        return count

    def _last_top(self) -> LinePart:
        """The top of the last page."""
        need = self._height
        place = LinePart(0, 0)
        for line, rows in self._before(self._file.size):
            if len(rows) >= need:
                return LinePart(line.start, len(rows) - need)
            need -= len(rows)
            place = LinePart(line.start, 0)
        return place

    def _forth(self, place: LinePart, count: int) -> LinePart:
        for line, rows in self._from(place.line):
            if place.line != line.start:
                place = LinePart(line.start, 0)
            if place.part + count < len(rows):
                return LinePart(line.start, place.part + count)
            count -= len(rows) - place.part
        return self._last_top()

    def _back(self, place: LinePart, count: int) -> LinePart:
        if count <= place.part:
            return LinePart(place.line, place.part - count)
        count -= place.part
        for line, rows in self._before(place.line):
            if len(rows) >= count:
                return LinePart(line.start, len(rows) - count)
            count -= len(rows)
        return LinePart(0, 0)

    def _from(self, start: int) -> Iterator[tuple[Line, list[Row]]]:
        while start < self._file.size:
            line = self._line(start)
            yield line, self._rows(line)
            start = line.next

    def _before(self, offset: int) -> Iterator[tuple[Line, list[Row]]]:
        while offset > 0:
            offset = self._breaks.start(offset - 1)
            line = self._line(offset)
            yield line, self._rows(line)

    def _line(self, start: int) -> Line:
        end, following = self._breaks.end(start)
        return read_line(self._file, start, end, following)

    def _rows(self, line: Line) -> list[Row]:
        begins = cuts(line.text, self._width) if self._wrap else (0,)
        if len(begins) == 1:
            return [Row(line.start, 0, line.text, line.spans, line.note)]
        ends = (*begins[1:], len(line.text))
        said_from = len(line.text) - line.note
        return [
            Row(line.start, part, line.text[a:b], spans_between(line.spans, a, b), max(0, b - max(a, said_from)))
            for part, (a, b) in enumerate(zip(begins, ends, strict=True))
        ]
