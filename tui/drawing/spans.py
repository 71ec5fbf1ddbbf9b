"""Lines made of pieces: text with the name of its style, cut, padded, and left out where there is no room. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from .format import length

Span = tuple[str, str]
"""Text, and the name of its style, which the widget that draws it knows."""

_WORTH_CUTTING = 8
"""So many cells of a text still tell something."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GLYPHS = {"mine": "▓", "others": "▒", "unexplained": "░"}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a line that is left out, the one of the highest `rank` first, where there is no room."""

    rank: int
    spans: tuple[Span, ...]


def cut(spans: Sequence[Span], width: int) -> list[Span]:
    """At most *width* cells; an ellipsis says that something is missing."""
    if length(spans) <= width:
        return list(spans)
    kept: list[Span] = []
    left = width - 1
    for text, style in spans:
        cells = cell_len(text)
        if cells > left:
            kept.append((set_cell_size(text, left).rstrip(), style))
            break
        kept.append((text, style))
        left -= cells
    return [*kept, ("…", "dim")] if width > 0 else []


def pad(spans: Sequence[Span], width: int, *, right: bool = False) -> list[Span]:
    """Exactly *width* cells; *right*: aligned there."""
    spans = cut(spans, width)
    blank = (" " * (width - length(spans)), "plain")
    return [blank, *spans] if right else [*spans, blank]


def pack(parts: Sequence[Part], width: int) -> list[Span]:
    """The parts side by side, two cells apart; those of the highest rank are cut or left out until the rest fits."""
    kept = [part for part in parts if part.spans]
    while len(kept) > 1 and (over := sum(length(part.spans) + 2 for part in kept) - 2 - width) > 0:
        victim = max(kept, key=lambda part: part.rank)
        place, left = kept.index(victim), length(victim.spans) - over
        if left >= _WORTH_CUTTING:
            kept[place] = Part(victim.rank, tuple(cut(victim.spans, left)))
        else:
            del kept[place]
    spans: list[Span] = []
    for part in kept:
        spans += [("  ", "plain"), *part.spans] if spans else part.spans
    return cut(spans, width)


def muted(line: Sequence[Span]) -> list[Span]:
    """As it was told last, which may no longer be so."""
    return [(text, style if style in ("track", "rule") else "dim") for text, style in line]


def bar(shares: Sequence[tuple[float, str]], width: int) -> list[Span]:
    """Shares of 1, one after another, each with its style; the rest is track. Styles differ in their glyphs, too."""
    filled = _stacked(shares, width) if len(shares) > 1 else _smooth(*shares[0], width)
    rest = width - sum(len(text) for text, _ in filled)
    return [span for span in (*filled, (" " * rest, "track")) if span[0]]


def block(style: str) -> str:
    """What a bar of this style is made of."""
    return _GLYPHS.get(style, "█")


def _smooth(share: float, style: str, width: int) -> list[Span]:
    """One share, to the eighth of a cell. What is not nothing is seen."""
    eighths = int(min(1.0, max(0.0, share)) * width * 8)
    if share > 0 and width > 0:
        eighths = max(1, eighths)
    return [("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip(), style)]


def _stacked(shares: Sequence[tuple[float, str]], width: int) -> list[Span]:
    """Several shares in whole cells; each that is not nothing has one, as long as there is room."""
    spans: list[Span] = []
    end, used = 0.0, 0
    for share, style in shares:
        end = min(1.0, end + max(0.0, share))
        until = min(width, max(round(end * width), used + (share > 0)))
        spans.append((block(style) * (until - used), style))
        used = until
    return spans
