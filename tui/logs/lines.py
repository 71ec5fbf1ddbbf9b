"""A line of a log made fit for the screen: its last `\\r` frame, cut where it is long, nothing but text and colours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ...engine.logs.log_file import LogFile
from ...engine.logs.printable import last_frame, printable
from ...engine.text import size_text

Colour = int | tuple[int, int, int] | None
"""Of the palette of 256, red green blue, or the screen's own."""

_COLOURS = re.compile(r"(?:\x1b\[|\x9b)([0-9;:]*)m")
_MAX_PARAMETERS = 32
_TAB = 8


class Sgr(NamedTuple):
    """How text is to look. ECMA-48, "select graphic rendition"; colours as xterm has them. Nothing blinks or hides."""

    fg: Colour = None
    bg: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


PLAIN = Sgr()
_ON: dict[int, tuple[str, bool]] = {
    1: ("bold", True), 2: ("dim", True), 3: ("italic", True), 4: ("underline", True), 7: ("reverse", True),
    9: ("strike", True), 21: ("underline", True), 23: ("italic", False), 24: ("underline", False),
    27: ("reverse", False), 29: ("strike", False),
}  # fmt: skip


class Span(NamedTuple):
    """Characters *start* to *end* of a text look like *sgr*."""

    start: int
    end: int
    sgr: Sgr


def cleaned(text: str) -> tuple[str, tuple[Span, ...]]:
    """What a terminal would show of one line, and its colours. Each line begins without any."""
    if "\x1b[" not in text and "\x9b" not in text:
        return _without_tabs(text, 0), ()
    pieces: list[str] = []
    spans: list[Span] = []
    length, sgr, at = 0, PLAIN, 0
    for found in _COLOURS.finditer(text):
        length = _take(text[at : found.start()], sgr, length, pieces, spans)
        sgr = changed(sgr, found[1])
        at = found.end()
    _take(text[at:], sgr, length, pieces, spans)
    return "".join(pieces), tuple(spans)


def _take(raw: str, sgr: Sgr, length: int, pieces: list[str], spans: list[Span]) -> int:
    """Add a piece of one look; returns how long the text is then."""
    piece = _without_tabs(raw, length) if raw else ""
    if not piece:
        return length
    pieces.append(piece)
    end = length + len(piece)
    if sgr != PLAIN:
        spans.append(Span(length, end, sgr))
    return end


def _without_tabs(raw: str, column: int) -> str:
    if "\t" not in raw:
        return printable(raw)
    first, *others = raw.split("\t")
    text = printable(first)
    for other in others:
        text += " " * (_TAB - (column + len(text)) % _TAB) + printable(other)
    return text


def changed(sgr: Sgr, parameters: str) -> Sgr:
    """What *sgr* becomes by the parameters of one sequence; those that mean nothing here are passed over."""
    codes = _codes(parameters)
    at = 0
    while at < len(codes):
        code, at = codes[at], at + 1
        if code in (38, 48, 58):
            colour, at = _extended(codes, at)
            if colour is not None and code != 58:  # the underline's own colour is not drawn
                sgr = sgr._replace(**{"fg" if code == 38 else "bg": colour})
        else:
            sgr = _simple(sgr, code)
    return sgr


def _simple(sgr: Sgr, code: int) -> Sgr:
    if code == 0:
        return PLAIN
    if code in _ON:
        name, on = _ON[code]
        return sgr._replace(**{name: on})
    if code == 22:
        return sgr._replace(bold=False, dim=False)
    for first, name, bright in ((30, "fg", 0), (40, "bg", 0), (90, "fg", 8), (100, "bg", 8)):
        if first <= code <= first + 7:
            return sgr._replace(**{name: code - first + bright})
    if code in (39, 49):
        return sgr._replace(**{"fg" if code == 39 else "bg": None})
    return sgr


def _codes(parameters: str) -> list[int]:
    """`38:2::1:2:3` as `38;2;1;2;3`; `4:3` (a curly underline) as 4, `4:0` as its end."""
    codes: list[int] = []
    for part in parameters.split(";", _MAX_PARAMETERS)[:_MAX_PARAMETERS]:
        main, *sub = part.split(":", 8)
        code = _number(main)
        if code in (38, 48, 58) and sub:
            rgb = (
                [_number(text) for text in sub[1:] if text][-3:]
                if sub[0] == "2"
                else [_number(sub[1])]
                if sub[1:]
                else []
            )
            codes += [code, _number(sub[0]), *rgb]
        elif code == 4 and sub:
            codes.append(24 if sub[0] == "0" else 4)
        else:
            codes.append(code)
    return codes


def _number(text: str) -> int:
    """-1 for what is none that has a meaning."""
    if not text:
        return 0
    return int(text) if len(text) <= 3 and text.isdecimal() else -1


def _extended(codes: list[int], at: int) -> tuple[Colour, int]:
    """The colour after a 38 or 48, and where the next code stands."""
    kind = codes[at] if at < len(codes) else -1
    if kind == 5 and at + 1 < len(codes):
        index = codes[at + 1]
        return (index if 0 <= index <= 255 else None), at + 2
    if kind == 2 and at + 3 < len(codes):
        red, green, blue = codes[at + 1 : at + 4]
        good = all(0 <= part <= 255 for part in (red, green, blue))
        return ((red, green, blue) if good else None), at + 4
    return None, len(codes)


EDGE_BYTES = 64 << 10
"""Read of each end of a longer line."""
MOST_CHARS = 8192
"""Shown of a line."""


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
    return _line(start, next_start, raw, cut_bytes)


def shown_text(raw: bytes) -> str:
    """What a line of these bytes shows, whole."""
    return cleaned(last_frame(raw.decode("utf-8", "replace")))[0]


def _long(file: LogFile, start: int, count: int) -> tuple[bytes, int]:
    """The last frame of a long line, else its beginning and how much is left out."""
    tail = file.read(start + count - EDGE_BYTES, EDGE_BYTES)
    if b"\r" in tail.rstrip(b"\r"):
        return tail, 0
    return file.read(start, EDGE_BYTES), count - EDGE_BYTES


def _line(start: int, next_start: int, raw: bytes, cut_bytes: int) -> Line:
    text, spans = cleaned(last_frame(raw.decode("utf-8", "replace")))
    if not cut_bytes and len(text) <= MOST_CHARS:
        return Line(start, next_start, text, spans)
    cut_bytes += len(text[MOST_CHARS:].encode())
    kept = text[:MOST_CHARS]
    note = f" … {size_text(cut_bytes)} more" if cut_bytes else ""
    spans = tuple(Span(first, min(last, MOST_CHARS), sgr) for first, last, sgr in spans if first < MOST_CHARS)
    return Line(start, next_start, kept + note, spans, len(note))
