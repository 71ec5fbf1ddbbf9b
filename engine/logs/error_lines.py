"""Which lines of a log tell of an error, whatever wrote them."""

from __future__ import annotations

import re

from .signs import first_sign

NEEDLES = (
    b"Traceback", b"Error", b"ERROR", b"error: ", b"Exception", b"atal", b"FATAL", b"CRITICAL", b"of memory",
    b"allocate memory", b"bad_alloc", b"Killed", b"Segmentation", b"dumped", b"ssertion", b"terminate called",
    b"panicked at", b"not found",
)  # fmt: skip
"""One of these is in every line that can be one: looked for first, because it is fast."""

_BEGIN = r"^\s*(?:\[[^\]]{1,40}\]:?\s*|[EF]\d{4}\s[^\]]{1,80}\]\s*)*"
_EXCEPTION = re.compile(rf"{_BEGIN}[A-Za-z_][\w.]{{0,200}}(?:Error|Exception|Exit|Interrupt)(?::(?!\s*[-+]?[\d.])\s|$)")
_ERROR = re.compile(
    r"Traceback \(most recent call last\)"
    r"|\b(?:ERROR|FATAL|CRITICAL)\b(?!\s*[=:]\s*[-+]?[\d.])"
    r"|(?:^|[\s:\]])(?:[Ff]atal )?[Ee]rror: (?!\s*[-+]?[\d.])"
    r"|\b[Ff]atal (?:[Ee]rror|Python error|exception)"
    r"|\bKilled(?:\s*$|:| process)"
    r"|Segmentation fault|\(core dumped\)|terminate called|panicked at|: command not found"
    r"|Assertion .{1,200} failed"
)
_GRAVE = frozenset({"gpu memory", "host memory", "device"})


def names_an_exception(line: str) -> bool:
    """`RuntimeError: no data`: as Python prints it at the end of a traceback, and programs that catch all without."""
    return _EXCEPTION.search(line[:4096]) is not None


def tells_an_error(line: str) -> bool:
    """For a line as it is shown. A warning, or a metric with such a name (`error: 0.12`), is none."""
    line = line[:4096]
    if _EXCEPTION.search(line) or _ERROR.search(line):
        return True
    sign = first_sign(line)
    return sign is not None and sign[0].kind in _GRAVE
