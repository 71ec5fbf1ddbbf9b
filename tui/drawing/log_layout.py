"""How the two streams of a log view share its room. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a view is to be seen."""

    first: bool
    second: bool
    divider: bool
    second_height: int | None = None
    """None: all that is there."""


def alone(*, second: bool) -> Parts:
    """One stream is shown."""
    return Parts(not second, second, divider=False)


def together(height: int, first: int, second: int, *, compact: bool) -> Parts:
    """Both are, with *first* and *second* rows to show; the rows that there are include the divider's.

    *compact*: a stream without rows gets no room.
    """
    upper, lower = shares(max(2, height - 1), first, second)
    if compact and not first and second:
        upper, lower = 0, height
    only_first = not lower or (compact and not second)
    return Parts(upper > 0, not only_first, divider=not compact or bool(first and second), second_height=lower)


def shares(height: int, first: int, second: int) -> tuple[int, int]:
    """Rows for two streams that have *first* and *second* rows to show: what is short gets what it needs, the rest is
    the other's; else three to two."""
    if first + second <= height:
        return (height - second, second) if second else (height, 0)
    lower = height * 2 // 5
    if second <= lower:
        return height - second, second
    if first <= height - lower:
        return first, height - first
    return height - lower, lower
