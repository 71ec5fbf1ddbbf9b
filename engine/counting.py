"""Numbers in words, the same wherever they are told. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def plural(number: int, noun: str) -> str:
    """ "1 task", "10,000 tasks"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ranges(numbers: Iterable[int]) -> str:
    """(0, 1, 2, 5) as "0-2,5"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
