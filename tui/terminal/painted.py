"""What stands on the terminal, cell by cell: of what Textual draws only the cells that differ are sent.

Textual sends whatever a widget has refreshed, changed or not, each piece with all its colours. A clock in one cell is a
line then, and a whole screen where a dialog lies over it: too much for a slow line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from rich.cells import get_character_cell_size
from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderResult
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

Look = tuple[str, str, str]
"""Attributes, foreground and background as parameters of SGR."""
Cell = tuple[str, Look]
"""A character with what combines with it; "": the right half of a wide one."""

_PLAIN: Look = ("", "", "")
_UNKNOWN: Cell = ("", ("unknown", "", ""))
_NEAR = 4
"""So few cells that are right are written again: a move of the cursor costs more."""
_LOOKS_KEPT = 4096


class Difference(CompositorUpdate):
    """What there is to send."""

    def __init__(self, text: str) -> None:
        self._text = text

    def render_segments(self, console: Console) -> str:  # noqa: ARG002 -- it has been rendered
        return self._text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._text


class Painted:
    """The terminal as it has been told to look."""

    def __init__(self) -> None:
        self._rows: list[list[Cell]] = []
        self._looks: dict[Style, Look] = {}

    def forget(self) -> None:
        """Somebody else may have drawn: all is sent next."""
        self._rows = []

    def difference(self, update: CompositorUpdate, console: Console) -> str | None:
        """What makes the terminal look like *update*; "" where it does. None: that kind of update is not known here,
        and what it draws neither."""
        if not isinstance(update, LayoutUpdate | ChopsUpdate):
            self.forget()
            return None
        out = _Out()
        colours = COLOR_SYSTEMS[console.color_system or "truecolor"]  # as Textual's own updates do
        for x, y, strip in _drawn(update):
            self._draw(out, x, y, self._cells(strip, colours))
        return out.text()

    def _draw(self, out: _Out, x: int, y: int, cells: list[Cell]) -> None:
        row, end = self._row(y, x + len(cells)), x + len(cells)
        before = row[x:end]
        if before == cells:
            return
        row[x:end] = cells
        if _uneven(cells) or _uneven(before):  # terminals disagree on how wide some characters are
            out.put(x, y, cells)
            return
        for start, stop in _runs(before, cells):
            out.put(x + start, y, cells[start:stop])

    def _row(self, y: int, width: int) -> list[Cell]:
        while len(self._rows) <= y:
            self._rows.append([])
        row = self._rows[y]
        if len(row) < width:
            row.extend(repeat(_UNKNOWN, width - len(row)))
        return row

    def _cells(self, strip: Strip, colours: ColorSystem) -> list[Cell]:
        cells: list[Cell] = []
        for text, style, _ in strip:
            look = _PLAIN if style is None else self._look(style, colours)
            if text.isascii():
                cells.extend(zip(text, repeat(look), strict=False))
            else:
                _put_wide(cells, text, look)
        return cells

    def _look(self, style: Style, colours: ColorSystem) -> Look:
        look = self._looks.get(style)
        if look is None:
            if len(self._looks) >= _LOOKS_KEPT:
                self._looks.clear()
            look = self._looks[style] = _look_of(style, colours)
        return look


class _Out:
    """Writes cells one after the other; colours are told where they change."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._look = _PLAIN
        self._at = (-1, -1)

    def put(self, x: int, y: int, cells: list[Cell]) -> None:
        if (x, y) != self._at:
            self._parts.append(f"\x1b[{y + 1};{x + 1}H")
        for text, look in cells:
            if look is not self._look and look != self._look:
                self._parts.append(_turn(self._look, look))
                self._look = look
            self._parts.append(text)
        # Whoever is not sure where the cursor is now says where it goes next.
        self._at = (-1, -1) if _uneven(cells) else (x + len(cells), y)

    def text(self) -> str:
        if self._look != _PLAIN:
            self._parts.append("\x1b[0m")
        return "".join(self._parts)


def _drawn(update: LayoutUpdate | ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Column, row and cells of each piece."""
    if isinstance(update, LayoutUpdate):
        for y, line in enumerate(update.strips, update.region.y):
            yield update.region.x, y, Strip.join(line)
        return
    for y, first, last in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x < last and end > first:
                yield x, y, strip if end <= last else strip.crop(0, last - x)


def _runs(before: list[Cell], after: list[Cell]) -> Iterator[tuple[int, int]]:
    """Where they differ, with short stretches between that do not."""
    start = stop = -1
    for at, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is new or old == new:
            continue
        if start >= 0 and at - stop > _NEAR:
            yield start, stop
            start = at
        elif start < 0:
            start = at
        stop = at + 1
    if start >= 0:
        yield start, stop


def _uneven(cells: list[Cell]) -> bool:
    """Whether a character takes other than one cell."""
    return any(len(text) != 1 for text, _ in cells)


def _put_wide(cells: list[Cell], text: str, look: Look) -> None:
    for character in text:
        width = get_character_cell_size(character)
        if width == 0 and cells:
            at = len(cells) - 1
            while at > 0 and not cells[at][0]:
                at -= 1
            cells[at] = (cells[at][0] + character, cells[at][1])
        else:
            cells.append((character, look))
            cells.extend(repeat(("", look), width - 1))


def _look_of(style: Style, colours: ColorSystem) -> Look:
    attributes = Strip.render_ansi(style.without_color, colours)
    return attributes, _colour(style.color, colours), _colour(style.bgcolor, colours, foreground=False)


def _colour(colour: Color | None, colours: ColorSystem, *, foreground: bool = True) -> str:
    return "" if colour is None else ";".join(colour.downgrade(colours).get_ansi_codes(foreground))


def _turn(old: Look, new: Look) -> str:
    """From one look to another."""
    if old[0] != new[0]:
        return f"\x1b[{';'.join(('0', *filter(None, new)))}m"
    changed = [new[1] or "39"] if old[1] != new[1] else []
    if old[2] != new[2]:
        changed.append(new[2] or "49")
    return f"\x1b[{';'.join(changed)}m"
