"""What is known of the task whose page is open: what the engine tells, and what an attempt of it has left in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...engine.protocol.wire import TaskRow
from ..curves.feed import CurveFeed
from ..curves.lines import Curve
from .aside import Aside
from .attempts import Attempts
from .files import KEPT, Files, Left, read
from .known import Known

_LOOKS = 5
"""So often the record of an attempt that has ended is looked for."""


class Gathering:
    """Of one task at a time. *news* is called through *deliver*, which brings a call onto the UI's thread."""

    def __init__(self, deliver: Callable[[Callable[[], None]], None], news: Callable[[], None]) -> None:
        self.attempts = Attempts()
        self._news = news
        self._files: Aside[Files, Left] = Aside(read, deliver, news, kept=KEPT)
        self._feed = CurveFeed(deliver, self._take_curves)
        self._curves: tuple[Curve, ...] = ()
        self._curves_of: tuple[str, int] = ("", 0)
        self._more_curves = False
        self._looks = 0

    @property
    def reads(self) -> bool:
        """A process reads curves."""
        return self._feed.reads

    def take(self, details: Mapping[str, Any]) -> None:
        """What the engine has told of the task."""
        self.attempts.details, self._looks = details, 0

    def look_at(self, attempt: int) -> None:
        self.attempts.look_at(attempt)
        self._looks = 0

    def read(self, task: str, started: float | None, *, curves: bool) -> None:
        """What the attempt that is looked at has written. *started*: of the newest attempt, seconds since the epoch.
        *curves*: somebody sees them."""
        number, files = self.attempts.number, self.attempts.files
        if files is not None and not files.ended:
            self._files.again(files)
        if self._curves_of != (task, number):
            self._curves_of, self._curves, self._more_curves = (task, number), (), bool(number)
        self._feed.show(self.attempts.curve_order(started) if curves else None)

    def look_again(self) -> None:
        """For what is written a moment after an attempt has ended; once a second."""
        files = self.attempts.files
        left = None if files is None else self._files.of(files)
        if files is not None and files.ended and left is not None and left.end is None and self._looks < _LOOKS:
            self._looks += 1
            self._files.again(files)

    def known(self, row: TaskRow, memory_mib: int | None) -> Known | None:
        """All of it. *memory_mib*: what it has on its GPUs now. None: the engine has not told of it yet."""
        if self.attempts.details is None:
            return None
        files = self.attempts.files
        return Known(
            details=self.attempts.details,
            row=row,
            attempt=self.attempts.number,
            left=None if files is None else self._files.of(files),
            curves=self._curves,
            reading=self._more_curves,
            memory_mib=memory_mib,
        )

    def rest(self) -> None:
        """Nobody sees the curves: no process reads them."""
        self._feed.close()

    def close(self) -> None:
        self._files.close()
        self._feed.close()

    def _take_curves(self, curves: tuple[Curve, ...], more: bool) -> None:
        self._curves, self._more_curves = curves, more
        self._news()
