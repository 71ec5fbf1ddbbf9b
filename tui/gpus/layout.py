"""How panes of GPUs share their room: how many columns, how many lines each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FULL, SHORT, FOLDED = 6, 4, 1
"""Lines of a pane."""
FOLD_FROM = 8
"""So many GPUs are shown one line each."""
_MAY_SPLIT = 110
"""Wide enough for two columns where one does not fit."""
_SPLIT = 140
"""So wide that one column would be stretched."""
_TWO_FOLDED_COLUMNS = 160

Step = Literal["up", "down", "left", "right", "first", "last", "page_up", "page_down"]


@dataclass(frozen=True, slots=True)
class Layout:
    """`count` panes, row by row."""

    count: int
    columns: int
    pane_height: int
    pane_width: int

    @property
    def rows(self) -> int:
        return -(-self.count // self.columns)

    @property
    def height(self) -> int:
        return self.rows * self.pane_height

    def at(self, x: int, y: int) -> int | None:
        """The pane at a cell; None beside all of them."""
        index = y // self.pane_height * self.columns + min(x // self.pane_width, self.columns - 1)
        return index if x >= 0 and y >= 0 and index < self.count else None

    def top(self, index: int) -> int:
        """The first line of a pane."""
        return index // self.columns * self.pane_height

    def after(self, index: int, step: Step, seen_height: int) -> int:
        """The pane that a step leads to; *seen_height*: lines of which a page is made."""
        page = max(1, seen_height // self.pane_height) * self.columns
        target = {
            "up": index - self.columns, "down": index + self.columns, "left": index - 1, "right": index + 1,
            "first": 0, "last": self.count - 1, "page_up": index - page, "page_down": index + page,
        }[step]  # fmt: skip
        if step in ("up", "down") and not 0 <= target < self.count:
            return index
        return max(0, min(self.count - 1, target))


def lay_out(count: int, width: int, height: int, *, fold: bool | None = None) -> Layout:
    """The tallest panes for which there is room; what does not fit even folded is scrolled to.

    *fold*: True one line each, False never; None: as it fits, and from eight GPUs on one line each.
    """
    width = max(1, width)
    if fold is None and count >= FOLD_FROM:
        fold = True
    if fold:
        return _folded(count, width, height)
    for pane_height in (FULL, SHORT):
        for columns in _columns(count, width):
            found = Layout(count, columns, pane_height, width // columns)
            if found.height <= height:
                return found
    if fold is None:
        return _folded(count, width, height)
    columns = _columns(count, width)[-1]
    return Layout(count, columns, SHORT, width // columns)


def _columns(count: int, width: int) -> tuple[int, ...]:
    if count < 2 or width < _MAY_SPLIT:
        return (1,)
    return (2,) if width >= _SPLIT else (1, 2)


def _folded(count: int, width: int, height: int) -> Layout:
    columns = 2 if width >= _TWO_FOLDED_COLUMNS and count > height else 1
    return Layout(count, columns, FOLDED, width // columns)
