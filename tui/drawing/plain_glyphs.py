"""Text for terminals that take nothing but ASCII: each glyph becomes one that is as wide. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_KNOWN = {
    "●": "*", "◔": ">", "◕": "<", "✗": "x", "↻": "~", "⊘": "/", "–": "-", "○": "o", "◌": ".", "✓": "+",
    "‖": "h", "≠": "#", "↺": "%", "∅": "0", "∉": "\\", "◆": "#", "▲": "^", "▼": "v", "↑": "^", "↓": "v", "←": "<",
    "→": ">", "…": "~", "·": "-", "×": "x", "°": " ", "█": "#", "▌": ">", "▐": "|", "▎": "|", "▏": "|", "▁": "_",
    "▂": "_", "▃": ".", "▄": "=", "▅": "=", "▆": "#", "▇": "#", "▀": "^", "░": ".", "▒": ":", "▓": "#",
    "╳": "x", "╌": ":", "╍": ">",
    "‘": "'", "’": "'", "“": '"', "”": '"', "—": "-", "▶": ">", "▸": ">", "±": "+",
}  # fmt: skip
_HORIZONTAL = frozenset("─╴╶╼╾╌┄┈")
_HEAVY = frozenset("━═╸╺╍┅┉")
_VERTICAL = frozenset("│┃║╵╷╹╻╎╏┆┇┊┋╽╿")
_SHADES = " ..::+##@"
"""Of a braille cell, by how many of its eight dots are set."""
_DUMB = ("ansi", "linux", "vt")
"""Terminals, by how their names begin, that have no such glyphs, whatever the locale says."""


class _Ascii(dict[int, str]):
    """For str.translate; looks at a character once."""

    def __missing__(self, code: int) -> str:
        found = self[code] = chr(code) if code < 128 else _plain(chr(code))
        return found


_ASCII = _Ascii()


def plain(text: str) -> str:
    """*text* in ASCII, in as many cells."""
    return text if text.isascii() else text.translate(_ASCII)


class PlainGlyphs(LineFilter):
    """All that is drawn, in ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [Segment(plain(text), style, control) for text, style, control in segments]


def takes_glyphs(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows more than ASCII.

    *environ*: as the process got it: Python puts a locale of its own into os.environ where it finds C. No locale at all
    is what containers have, on terminals that are up to date; tmux and screen then show no glyph.
    """
    if environ.get("TERM", "").startswith(_DUMB):
        return False
    named = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    if not named:
        return not (environ.get("TMUX") or environ.get("STY"))
    return named.lower().replace("-", "").partition("@")[0].endswith("utf8")


def _plain(char: str) -> str:
    if char in _KNOWN:
        return _KNOWN[char]
    if 0x2800 <= ord(char) <= 0x28FF:
        return _SHADES[(ord(char) - 0x2800).bit_count()]
    if char in _HORIZONTAL:
        return "-"
    if char in _HEAVY:
        return "="
    if char in _VERTICAL:
        return "|"
    if 0x2500 <= ord(char) <= 0x257F:
        return "+"
    if 0x2580 <= ord(char) <= 0x259F:
        return "#"
    width = cell_len(char)
    base = unicodedata.normalize("NFKD", char)[0]
    return base if base.isascii() and base.isprintable() and width == 1 else "?" * width
