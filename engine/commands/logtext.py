"""What tasks wrote, as lines that a terminal can be given: colours stay, everything else that it would obey goes."""

from __future__ import annotations

import codecs
import re

from ..logs.tail import printable

LINE_CHARS = 65536
"""Longer lines are cut."""

_COLOUR = re.compile(r"\x1b\[([0-9;:]{0,40})m")
_PLACE = "\ue000"
"""Stands for a colour while everything else is dropped; a character of private use, which no log means."""
_CONCEAL = "8"


class Lines:
    """Bytes of a log become lines, as they come."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The lines that *data* completes."""
        *lines, rest = (self._rest + self._decoder.decode(data)).split("\n")
        if len(rest) > LINE_CHARS:
            frames = rest.rpartition("\r")[2]
            rest = rest[:LINE_CHARS] if len(frames) > LINE_CHARS else frames
        self._rest = rest
        return [self._clean(line) for line in lines]

    @property
    def moving(self) -> bool:
        """The line that is not complete is one that is written over and over, as progress bars are."""
        return "\r" in self._rest

    def rest(self) -> str:
        """The line that is not complete, as it stands."""
        return self._clean(self._rest)

    def end(self) -> str:
        """The same, and forget it."""
        text, self._rest = self.rest(), ""
        self._decoder.reset()
        return text

    def _clean(self, line: str) -> str:
        line = _last_frame(line)
        if len(line) > LINE_CHARS:
            line = line[: LINE_CHARS - 1] + "…"
        if "\t" in line:
            line = line.expandtabs(8)
        if not self._colour or "\x1b" not in line:
            return printable(line)
        colours = [found[0] for found in _COLOUR.finditer(line)]
        texts = printable(_COLOUR.sub(_PLACE, line.replace(_PLACE, ""))).split(_PLACE)
        shown = [code if _harmless(code) else "" for code in colours]
        return "".join(piece for pair in zip(texts, [*shown, "\x1b[0m"], strict=True) for piece in pair)


def _harmless(code: str) -> bool:
    """Text that is made invisible would be there when it is copied."""
    numbers = re.split(r"[;:]", code[2:-1])
    return _CONCEAL not in numbers or "38" in numbers or "48" in numbers


def _last_frame(line: str) -> str:
    """What a terminal would show last; a frame that only clears the line does not count."""
    if "\r" not in line:
        return line
    for frame in reversed(line.rstrip("\r").rsplit("\r", 3)):
        if printable(frame).strip():
            return frame.rpartition("\r")[2]
    return ""
