"""Lines folded into rows of a width in terminal cells."""

from __future__ import annotations

from rich.cells import cell_len

from .escapes import Span


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
