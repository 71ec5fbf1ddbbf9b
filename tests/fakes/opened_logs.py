"""Logs that a test opens, closed after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpudeck.engine.logs.log_file import LogFile

_opened: list[LogFile] = []


def opened(path: Path) -> LogFile:
    """Closed with `closing_logs`, or by the test."""
    file = LogFile(str(path))
    file.look()
    _opened.append(file)
    return file


@contextmanager
def closing_logs() -> Iterator[None]:
    yield
    for file in _opened:
        file.close()
    _opened.clear()
