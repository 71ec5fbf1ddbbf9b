"""Small pieces of text, the same wherever they are told: what comes from outside made printable, numbers and times in
words, cells in columns. Pure."""

from __future__ import annotations

import math
import shlex
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence

MAX_FIELD_CHARS = 500
"""Longest name, reason or path on a line."""
MAX_DIGEST_CHARS = 1000
"""Longest line of a log that is shown."""
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


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


def command_text(command: str | Sequence[str]) -> str:
    """A command as a shell takes it; it may be long, and hold what cannot be printed."""
    return command if isinstance(command, str) else shlex.join(command)


def pairs_text(pairs: Mapping[str, str | None]) -> str:
    """ "bs=32 lr=0.1"; None: "X unset"."""
    return " ".join(f"{name} unset" if value is None else f"{name}={value}" for name, value in pairs.items())


def beside(state: str, reason: str) -> str:
    """A reason that stands behind the state: "cancelled by scancel" need not say that it was cancelled."""
    return reason.removeprefix(f"{state} ") if reason.startswith(f"{state} by ") else reason


def log_line(text: str) -> str:
    """A line of a digest, which `logs.printable` has made: without escape sequences and frames of bars."""
    return shorten(printable(shorten(text, 2 * MAX_DIGEST_CHARS)), MAX_DIGEST_CHARS)


def eta_text(left_s: float | None, unmeasured: int) -> str:
    """ "eta 3h00m", "eta at least 3h00m, 2 tasks not measured yet"; empty where nobody knows."""
    if left_s is None:
        return ""
    if not unmeasured:
        return f"eta {duration(left_s)}"
    return f"eta at least {duration(left_s)}, {plural(unmeasured, 'task')} not measured yet"


def hhmmss(seconds: float) -> str:
    """The stamp of an event, counted from the run's begin; hours run on beyond 24."""
    if not math.isfinite(seconds):
        return "--:--:--"
    minutes, second = divmod(max(0, round(seconds)), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


def duration(seconds: float | None) -> str:
    """Six characters at most, so that it changes seldom where it lasts: "42s", "12m04s", "3h12m", "2d07h", "120d"."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    whole = max(0, round(seconds))
    if whole < MINUTE_S:
        return f"{whole}s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S}m{whole % MINUTE_S:02d}s"
    if whole < DAY_S:
        return f"{whole // HOUR_S}h{whole % HOUR_S // MINUTE_S:02d}m"
    days = whole // DAY_S
    return f"{days}d{whole % DAY_S // HOUR_S:02d}h" if days < 100 else f"{days}d"


def wh_text(wh: float) -> str:
    """ "0.042 Wh", "12.3 Wh", "1.24 kWh"."""
    if wh >= 1000:
        return f"{wh / 1000:.2f} kWh"
    return f"{wh:.1f} Wh" if wh >= 1 else f"{wh:.2g} Wh"


def mib_text(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def plural(number: int, noun: str) -> str:
    """ "1 task", "10,000 tasks"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def names_text(names: Sequence[str], shown: int = 5) -> str:
    """ "a, b, c and 9 more"."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more:,} more" if more > 0 else "")


def ranges(numbers: Iterable[int]) -> str:
    """(0, 1, 2, 5) as "0-2,5"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def measured(value: float, decimals: int | None = -1) -> str:
    """A number that was measured: four digits of it, or so many *decimals* (None: with an exponent). What these would
    make zero keeps its digits: 0.000153 is 1.53e-04 among numbers of three decimals."""
    if not math.isfinite(value):
        return str(value)
    if decimals is None:
        return f"{value:.3e}"
    if decimals < 0:
        return f"{value:.4g}"
    text = f"{value:.{decimals}f}"
    return f"{value:.2e}" if value and not float(text) else text


def size_text(size: int) -> str:
    """Bytes for people: "0 B", "12.0 KiB", "3.4 GiB"."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def cell_width(text: str) -> int:
    """Columns that a terminal gives the text."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) == "Mn":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Padded or cut ("…") to exactly *width* columns."""
    if (missing := width - cell_width(text)) >= 0:
        return text + " " * missing
    kept, used = "", 0
    for char in text:
        if used + _char_width(char) > width - 1:
            break
        kept, used = kept + char, used + _char_width(char)
    return f"{kept}…" + " " * (width - 1 - used)


_LEAST_CELL = 12
"""Columns that a cell which may be cut keeps."""


def columns_of(rows: Sequence[Sequence[str]], width: int | None = None, *, right: Container[int] = ()) -> list[str]:
    """Cells in columns, two spaces apart, those of *right* ending flush. In *width* columns the first and the last cell
    are cut to fit; None: no limit. What is in them is made printable."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    if width is not None and widths:
        excess = sum(widths) + 2 * (len(widths) - 1) - width
        for at in (len(widths) - 1, 0):
            taken = max(0, min(excess, widths[at] - _LEAST_CELL))
            widths[at] -= taken
            excess -= taken

    def laid(at: int, cell: str) -> str:
        return " " * (widths[at] - cell_width(cell)) + cell if at in right else fit(cell, widths[at])

    return ["  ".join(laid(at, cell) for at, cell in enumerate(row)).rstrip() for row in cells]
