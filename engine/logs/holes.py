"""The middle of a log whose disk space was freed (`log_cap`): it reads as zero bytes, and people are told instead."""

from __future__ import annotations

import os
import re

RUN_BYTES = 4096
"""A shorter run of zero bytes is what a task wrote."""

_RUN = re.compile(rb"\x00{%d,}" % RUN_BYTES)


def told(raw: bytes, *, before: int = 0) -> bytes:
    """*raw* with a line such as "… 1.2 GiB left out …" in place of each run of zero bytes.

    *before*: how many bytes of the hole at its beginning lie before *raw*.
    """
    if b"\0" * RUN_BYTES not in raw:
        return raw

    def line(run: re.Match[bytes]) -> bytes:
        size = len(run[0]) + (before if run.start() == 0 else 0)
        begin = b"" if run.start() == 0 else b"\n"
        return begin + f"… {size_text(size)} left out …\n".encode()

    return _RUN.sub(line, raw)


def bytes_of_hole_before(fd: int, offset: int) -> int:
    """How far back from *offset* a hole of a file reaches; 0 where *offset* is not in one, or cannot be told. The
    position of *fd* moves."""
    try:
        if os.lseek(fd, offset, os.SEEK_HOLE) != offset:
            return 0
        return offset - _last_data_before(fd, offset)
    except OSError:
        return 0


def _last_data_before(fd: int, offset: int) -> int:
    """Where the data before *offset* ends."""
    end = at = 0
    while at < offset:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # nothing but holes from here on
            break
        if at >= offset:
            break
        end = at = os.lseek(fd, at, os.SEEK_HOLE)
    return end


def size_text(size: int) -> str:
    """Bytes for people: "0 B", "12.0 KiB", "3.4 GiB"."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
