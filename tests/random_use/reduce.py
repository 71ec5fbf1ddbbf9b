"""From a plan that finds something to one that finds the same with fewer acts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .plan import Act


def reduced(plan: Sequence[Act], finds: Callable[[Sequence[Act]], bool]) -> list[Act]:
    """Leave out halves, quarters, … down to single acts, for as long as *finds* says that it is still found."""
    kept = list(plan)
    size = len(kept) // 2
    while size:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if fewer and finds(fewer):
                kept = fewer
            else:
                start += size
        size //= 2
    return kept
