"""Numbers in words and figures, the same wherever they are told. Pure."""

from __future__ import annotations

import math
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


def measured(value: float, decimals: int | None = -1) -> str:
    """A number that was measured: four digits of it, or so many *decimals* (None: with an exponent). What these would
    make zero keeps its digits: 0.000153 is 1.53e-04 among numbers of three decimals."""
    if not math.isfinite(value):
        return str(value)
    if decimals is None:
        return f"{value:.3e}"
    if decimals < 0:
        return f"{value:.4g}"
    text = f"{value:.{decimals}f}"
    return f"{value:.2e}" if value and not float(text) else text


def size_text(size: int) -> str:
    """Bytes for people: "0 B", "12.0 KiB", "3.4 GiB"."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
