"""The lines that tell why an attempt failed, read from its logs."""

from __future__ import annotations

from collections.abc import Callable

from ...engine.logs.digest import digest
from ...engine.protocol.pages import Failure
from .aside import Aside

_LINES = 20
_KEPT = 200

Logs = tuple[str, str]
"""stderr and stdout of an attempt."""


class Digests:
    """*told* is called through *deliver*, which brings a call onto the UI's thread, when one has been read."""

    def __init__(self, deliver: Callable[[Callable[[], None]], None], told: Callable[[], None]) -> None:
        self._aside: Aside[Logs, tuple[str, ...]] = Aside(_read, deliver, told, kept=_KEPT)

    def of(self, failure: Failure) -> tuple[str, ...] | None:
        """The end of what it wrote; None: not read yet, it will be told."""
        return self._aside.of((failure.err, failure.log)) if failure.log else ()

    def close(self) -> None:
        self._aside.close()


def _read(logs: Logs) -> tuple[str, ...]:
    return digest(*logs, _LINES)
