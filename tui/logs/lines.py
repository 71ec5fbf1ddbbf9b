"""What one line of a log shows: its last `\\r` frame, cut where it is long, without anything but text and colours."""

from __future__ import annotations

from dataclasses import dataclass

from ...engine.counting import size_text
from ...engine.logs.tail import printable
from .escapes import Span, cleaned
from .files import LogFile

EDGE_BYTES = 64 << 10
"""Read of each end of a longer line."""
MOST_CHARS = 8192
"""Shown of a line."""
_FRAMES_LOOKED_AT = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and the bytes *start* to *next* that it takes in its file."""

    start: int
    next: int
    text: str
    spans: tuple[Span, ...] = ()
    note: int = 0
    """So many characters at its end are said by us, not by the log."""


def read_line(file: LogFile, start: int, end: int, next_start: int) -> Line:
    """The line whose bytes are *start* to *end*."""
    count = end - start
    if count <= EDGE_BYTES:
        raw = file.read(start, count)
        cut_bytes = 0
    else:
        raw, cut_bytes = _long(file, start, count)
    return _line(start, next_start, last_frame(raw), cut_bytes)


def shown_text(raw: bytes) -> str:
    """What a line of these bytes shows, whole."""
    return cleaned(last_frame(raw).decode("utf-8", "replace"))[0]


def last_frame(raw: bytes) -> bytes:
    """What a terminal would show last of `\\r` frames; one that only clears the line does not count."""
    if b"\r" not in raw:
        return raw
    raw = raw.rstrip(b"\r")
    for frame in reversed(raw.rsplit(b"\r", _FRAMES_LOOKED_AT)):
        if printable(frame[-EDGE_BYTES:].decode("utf-8", "replace")).strip():
            return frame.rpartition(b"\r")[2]
    return b""


def _long(file: LogFile, start: int, count: int) -> tuple[bytes, int]:
    """The last frame of a long line, else its beginning and how much is left out."""
    tail = file.read(start + count - EDGE_BYTES, EDGE_BYTES)
    if b"\r" in tail.rstrip(b"\r"):
        return tail, 0
    return file.read(start, EDGE_BYTES), count - EDGE_BYTES


def _line(start: int, next_start: int, raw: bytes, cut_bytes: int) -> Line:
    text, spans = cleaned(raw.decode("utf-8", "replace"))
    if not cut_bytes and len(text) <= MOST_CHARS:
        return Line(start, next_start, text, spans)
    cut_bytes += len(text[MOST_CHARS:].encode())
    kept = text[:MOST_CHARS]
    note = f" … {size_text(cut_bytes)} more" if cut_bytes else ""
    spans = tuple(Span(first, min(last, MOST_CHARS), sgr) for first, last, sgr in spans if first < MOST_CHARS)
    return Line(start, next_start, kept + note, spans, len(note))
