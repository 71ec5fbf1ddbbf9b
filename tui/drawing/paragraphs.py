"""Lines of coloured pieces: long texts folded, two columns beside each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from .format import TEXT_CHARS, clean, cut, length, width_of

Tone = Literal["title", "plain", "strong", "muted", "running", "good", "bad", "warn", "link", "curve"]
"""What a piece of text is, for whoever gives it a colour."""
Link = tuple[Literal["task", "attempt"], str]
"""What a click on a piece opens."""
GAP = 3
"""Cells between two columns."""


class Span(NamedTuple):
    text: str
    tone: Tone = "plain"
    link: Link | None = None


Line = tuple[Span, ...]


def harmless(text: str, most: int = 4000) -> str:
    """As `format.clean`, of up to *most* characters."""
    cleaned = "".join(clean(text[at : at + TEXT_CHARS]) for at in range(0, min(len(text), most), TEXT_CHARS))
    return cleaned + "…" if len(text) > most else cleaned


def folded(text: str, width: int) -> list[str]:
    """Clean *text* in lines of at most *width* cells, broken at blanks where that leaves no line half empty."""
    width = max(1, width)
    found: list[str] = []
    while width_of(text) > width:
        head = cut(text, width + 1)[:-1] if not text.isascii() else text[:width]
        head = head or text[0]
        blank = head.rfind(" ") if text[len(head) : len(head) + 1] != " " else len(head)
        at = blank if blank >= len(head) // 2 and blank > 0 else len(head)
        found.append(text[:at].rstrip())
        text = text[at:].lstrip() if at == blank else text[at:]
    return [*found, text]


def paragraph(text: str, width: int, tone: Tone = "plain", *, indent: int = 0) -> list[Line]:
    """Text from outside, folded."""
    blank = (Span(" " * indent),) if indent else ()
    return [(*blank, Span(part, tone)) for part in folded(harmless(text), width - indent)]


def field(name: str, text: str, width: int, *, label: int = 11, tone: Tone = "plain") -> list[Line]:
    """A muted name and what stands behind it; nothing where that is empty."""
    if not text:
        return []
    parts = folded(harmless(text), width - label)
    return [(Span((name if not at else "").ljust(label), "muted"), Span(part, tone)) for at, part in enumerate(parts)]


def links(name: str, names: Sequence[str], width: int, *, label: int = 11, most: int = 60) -> list[Line]:
    """Tasks that can be opened, as many as fit in a line."""
    if not names:
        return []
    lines: list[Line] = []
    line: list[Span] = [Span(name.ljust(label), "muted")]
    used = label
    for task in names[:most]:
        text = cut(clean(task), max(4, width - label))
        if used > label and used + width_of(text) > width:
            lines.append(tuple(line))
            line, used = [Span(" " * label)], label
        line += [Span(text, "link", ("task", task)), Span("  ")]
        used += width_of(text) + 2
    if len(names) > most:
        line.append(Span(f"and {len(names) - most:,} more", "muted"))
    return [*lines, tuple(line)]


def beside(left: Sequence[Line], right: Sequence[Line], left_width: int) -> list[Line]:
    """Two columns; lines of the left one have at most *left_width* cells."""
    found: list[Line] = []
    for at in range(max(len(left), len(right))):
        first = left[at] if at < len(left) else ()
        second = right[at] if at < len(right) else ()
        blank = Span(" " * (left_width + GAP - length(first)))
        found.append((*first, blank, *second) if second else first)
    return found
