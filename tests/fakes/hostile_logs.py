"""What a log may hold that must leave the terminal unharmed, and how to see that it did."""

from __future__ import annotations

import re
import unicodedata

HOSTILE_LINES: dict[str, bytes] = {
    "clipboard (OSC 52)": b"before\x1b]52;c;cm0gLXJmIC8=\x07after",
    "clipboard, ended by ST": b"before\x1b]52;c;cm0gLXJmIC8=\x1b\\after",
    "clipboard, never ended": b"before\x1b]52;c;cm0gLXJmIC8=",
    "title": b"before\x1b]0;owned\x07after",
    "hyperlink": b"before\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\after",
    "palette": b"before\x1b]4;1;rgb:ff/ff/ff\x07after",
    "cursor home and clear": b"before\x1b[H\x1b[2J\x1b[3Jafter",
    "cursor up and write": b"before\x1b[10A\x1b[2Kafter",
    "alternate screen": b"before\x1b[?1049hafter",
    "mouse reports on": b"before\x1b[?1003h\x1b[?1006hafter",
    "bracketed paste": b"before\x1b[200~rm -rf /\x1b[201~after",
    "answers wanted": b"before\x1b[c\x1b[6n\x1b[>q\x05after",
    "full reset": b"before\x1bcafter",
    "other character set": b"before\x1b(0\x0eafter\x0f",
    "device control string": b"before\x1bPq#0;2;0;0;0\x1b\\after",
    "application command": b"before\x1b_Gf=24;AAAA\x1b\\after",
    "privacy message": b"before\x1b^secret\x1b\\after",
    "start of string": b"before\x1bXsecret\x1b\\after",
    "8-bit CSI as UTF-8": "before\x9b2Jafter".encode(),
    "8-bit OSC as UTF-8": "before\x9d52;c;AAAA\x9cafter".encode(),
    "8-bit DCS as UTF-8": "before\x90q\x9cafter".encode(),
    "raw 8-bit controls": b"before\x9b2J\x9d0;x\x9c\x85\x84after",
    "next line and separators": "before\x85\u2028\u2029after".encode(),
    "invalid UTF-8": b"before\xff\xfe\xc3\x28\xe2\x82\xf0\x9f\x92after",
    "overlong and surrogates": b"before\xc0\x80\xed\xa0\x80\xf5\x80\x80\x80after",
    "NULs": b"before\0\0\0after",
    "bell, backspace, form feed": b"before\x07\x08\x08\x0b\x0cafter",
    "delete and C0": b"before" + bytes(range(1, 9)) + b"\x7fafter",
    "bidi override": "before \u202egnp.exe\u202c after".encode(),
    "bidi isolates": "before \u2066\u2067\u2068x\u2069\u200f\u200e\u061c after".encode(),
    "invisible": "be\u200bfo\ufeffre\u2060 after".encode(),
    "tags": "before\U000e0041\U000e007f after".encode(),
    "markup": b"[red]before[/] [bold [/] [/nothing] [@click=app.quit]after[/]",
    "rich and content markup": b"[link=file:///etc/passwd]x[/link] [on red]{after}[/] $error \\[",
    "huge colour": b"\x1b[" + b"1;" * 5000 + b"31mbefore\x1b[0mafter",
    "huge numbers": b"\x1b[38;5;99999999999999999999mbefore\x1b[38;2;300;-1;4mafter\x1b[m",
    "colours cut short": b"before\x1b[38;2;1mafter\x1b[38m\x1b[48;5m.",
    "colours with colons": b"\x1b[38:2::255:0:0mbefore\x1b[4:3;58:5:1mafter\x1b[38:5m.",
    "hidden and blinking": b"before\x1b[8mhidden\x1b[5mblinks\x1b[0mafter",
    "escape at the end": b"before after\x1b",
    "half a CSI at the end": b"before after\x1b[38;5",
    "half an OSC at the end": b"before after\x1b]52;c",
    "escape in an escape": b"before\x1b]0;a\x1b[31mb\x1b[Hc\x07after",
    "CSI with intermediates": b"before\x1b[!p\x1b[ q\x1b[>4;2mafter",
    "frames": b"10%|#\r20%|##\r\x1b[K30%|### before after\r",
    "frames that clear": b"before after\r\x1b[2K\r   \r",
    "combining marks": ("before e" + "\u0301" * 300 + " after").encode(),
    "wide characters": "before 漢字かな🙂👩‍💻 after".encode(),
    "tabs": b"before\tafter\t\x1b[31m\tx",
}
"""By what they try; each is one line."""


def hostile_file() -> bytes:
    """All of them, some also where blocks of a reader begin and end, and a line of 10 MB."""
    pieces = [line + b"\n" for line in HOSTILE_LINES.values()]
    whole = b"".join(pieces)
    for line in (b"x\x1b]52;c;AAAA\x07y", b"x\x1b[31my\x1b[0m", "x\u202ey漢".encode()):
        for shift in range(len(line)):
            whole += b"." * (-len(whole) % 8192 + 8192 - shift - 1) + line + b"\n"
    return whole + b"long " + b"\x1b[3" + b"A" * 10_000_000 + b"\x1b]0;t\x07" + b"\n" + b"".join(pieces)


_BIDI_AND_INVISIBLE = re.compile(
    "[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def dangers(text: str) -> list[str]:
    """Characters that a terminal would act on or that deceive the reader; empty for what may be drawn."""
    found = [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    return found + _BIDI_AND_INVISIBLE.findall(text)
