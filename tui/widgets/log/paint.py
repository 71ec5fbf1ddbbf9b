"""A log's frame as lines: its rows in their colours, what a search and the mouse have marked, the bar at the edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from ...logs.viewport import Frame, Row
from .rows import Overlay, occurrences, placed, segments, thumb, window

if TYPE_CHECKING:
    from ...logs.hits import Hits


@dataclass(frozen=True, slots=True)
class Marks:
    """What of a search is to be seen."""

    needle: str = ""
    """Text that is marked wherever it stands."""
    hits: Hits | None = None
    current: int = -1
    """The line that a search stands on."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is drawn at once."""

    frame: Frame
    marks: Marks
    selected: Selection | None
    sideways: int
    """Cells that are scrolled away on the left."""
    columns: int
    """For text."""
    height: int
    bar: bool
    nothing: str
    """What stands there where there are no rows."""


class Paint:
    """Of one sight; styles are looked up once. *look*: the style of a part, *selection* that of selected text."""

    def __init__(self, sight: Sight, base: Style, look: Callable[[str], Style], selection: Callable[[], Style]) -> None:
        self._sight = sight
        self._base = base
        self._find = look
        self._selection = selection
        self._looks: dict[str, Style] = {}
        self._thumb = thumb(sight.frame, sight.height)

    def line(self, y: int) -> Strip:
        sight, base = self._sight, self._base
        rows, columns = sight.frame.rows, sight.columns
        if y < len(rows):
            pieces = segments(rows[y], base, self._overlays(rows[y], y))
        elif y == 0:
            pieces = [Segment(sight.nothing, base + self._look("note"))]
        else:
            pieces = []
        drawn = placed(window(pieces, sight.sideways, columns, base), sight.sideways, y)
        if sight.bar:
            drawn.append(self._bar_at(y))
        return Strip(drawn, columns + sight.bar)

    def _overlays(self, row: Row, y: int) -> list[Overlay]:
        marks, found = self._sight.marks, list[Overlay]()
        end = len(row.text)
        if row.note:
            found.append((end - row.note, end, self._look("note")))
        if row.line == marks.current:
            found.append((0, end, self._look("current")))
        elif marks.hits is not None and not marks.needle and row.line in marks.hits:
            found.append((0, end, self._look("hit-line")))
        if marks.needle:
            found += [(first, last, self._look("hit")) for first, last in occurrences(row.text, marks.needle)]
        if self._sight.selected is not None and (span := self._sight.selected.get_span(y)) is not None:
            first, last = span
            found.append((first, end if last == -1 else last, self._selection()))
        return found

    def _look(self, name: str) -> Style:
        if name not in self._looks:
            self._looks[name] = self._find(name)
        return self._looks[name]

    def _bar_at(self, y: int) -> Segment:
        first, last = self._thumb
        if not last:
            return Segment(" ", self._base)
        inside = first <= y < last
        return Segment("┃" if inside else "│", self._base + self._look("thumb" if inside else "bar"))
