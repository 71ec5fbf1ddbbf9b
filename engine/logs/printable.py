"""What tasks wrote made fit for a terminal."""

from __future__ import annotations

import re

_MAX_LINE_CHARS = 4096
_FRAMES_LOOKED_AT = 4
_LOOKED_AT_CHARS = 65536

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC with their payload
    r"|\x9b[0-?]*[ -/]*[@-~]?"
    r"|[\x90\x98\x9d\x9e\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff"
    # Invisible, or turning text around:
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_PRINTABLE_ASCII = re.compile(r"[ -~]*")


def lines_of(raw: bytes) -> list[str]:
    """Printable lines: of `\\r` frames the last one, at most 4096 characters each, no escape sequences or controls."""
    text = raw.decode("utf-8", "replace")
    lines = [_line(line) for line in text.split("\n")]
    if not lines[-1]:
        lines.pop()
    return lines


def printable(text: str) -> str:
    """*text* as one line without anything that a terminal would act on."""
    if _PRINTABLE_ASCII.fullmatch(text):
        return text
    text = _ESCAPE.sub("", text).replace("\n", " ").replace("\r", " ").replace("\t", " ")
    return _UNPRINTABLE.sub("", text)


def last_frame(line: str) -> str:
    """What a terminal would show last of `\\r` frames; one that only clears the line does not count."""
    if "\r" not in line:
        return line
    line = line.rstrip("\r")
    for frame in reversed(line.rsplit("\r", _FRAMES_LOOKED_AT)):
        if printable(frame[-_LOOKED_AT_CHARS:]).strip():
            return frame.rpartition("\r")[2]
    return ""


def _line(line: str) -> str:
    line = last_frame(line)[: 2 * _MAX_LINE_CHARS]
    line = printable(line.expandtabs(8) if "\t" in line else line).rstrip()
    return line if len(line) <= _MAX_LINE_CHARS else line[: _MAX_LINE_CHARS - 1] + "…"
