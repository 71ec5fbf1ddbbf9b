"""Small pieces of text: everything that comes from outside is made printable here, and only here."""

from __future__ import annotations

import math

from ..counting import plural as plural
from ..counting import ranges as ranges

MAX_FIELD_CHARS = 500
"""Longest name, reason or path on a line."""
MAX_DIGEST_CHARS = 1000
"""Longest line of a log that is shown."""


def printable(text: str) -> str:
    """The text on one line with nothing in it that a terminal obeys: what cannot be printed is shown as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _shown(char) for char in text)


def _shown(char: str) -> str:
    if char.isspace() and char not in "\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029":
        return " "
    return char.encode("unicode_escape").decode("ascii")


def shorten(text: str, limit: int = MAX_FIELD_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def field_text(text: str) -> str:
    """A name, reason or path as it stands on a line."""
    return shorten(printable(shorten(text, 4 * MAX_FIELD_CHARS)))


def beside(state: str, reason: str) -> str:
    """A reason that stands behind the state: "cancelled by scancel" need not say that it was cancelled."""
    return reason.removeprefix(f"{state} ") if reason.startswith(f"{state} by ") else reason


def log_line(text: str) -> str:
    """A line of a digest, which `logs.printable` has made: without escape sequences and frames of bars."""
    return shorten(printable(shorten(text, 2 * MAX_DIGEST_CHARS)), MAX_DIGEST_CHARS)


def eta_text(left_s: float | None, unmeasured: int) -> str:
    """ "eta 03:00:00", "eta at least 03:00:00, 2 tasks not measured yet"; empty where nobody knows."""
    if left_s is None:
        return ""
    if not unmeasured:
        return f"eta {hhmmss(left_s)}"
    return f"eta at least {hhmmss(left_s)}, {plural(unmeasured, 'task')} not measured yet"


def hhmmss(seconds: float) -> str:
    """Hours run on beyond 24."""
    if not math.isfinite(seconds):
        return "--:--:--"
    minutes, second = divmod(max(0, round(seconds)), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


def short_time(seconds: float) -> str:
    """For waits: "10 s", from two minutes on "00:02:30"."""
    return f"{math.ceil(seconds)} s" if 0 <= seconds < 120 else hhmmss(seconds)


def wh_text(wh: float) -> str:
    """ "0.042 Wh", "12.3 Wh", "1.24 kWh"."""
    if wh >= 1000:
        return f"{wh / 1000:.2f} kWh"
    return f"{wh:.1f} Wh" if wh >= 1 else f"{wh:.2g} Wh"


def mib_text(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"
