"""What is known of the task whose page is open: what the engine tells, and what an attempt of it has left in files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from textual.widget import Widget
from textual.worker import Worker

from ...engine.logs.digest import digest
from ...engine.logs.told import git_text, is_simulated, read_record, words_in
from ...engine.protocol.wire import TaskRow
from ..background import BackgroundReader, lines_of
from ..curves.lines import Curve, from_wire

_LINES = 20
KEPT = 50
"""Of so many attempts."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where one attempt's files are."""

    json: str
    out: str
    err: str
    ended: bool
    failed: bool = False
    """The end of what it wrote is of interest."""


@dataclass(frozen=True, slots=True)
class Left:
    """What they say. Empty where they say nothing."""

    digest: tuple[str, ...] = ()
    git: str = ""
    host: str = ""
    end: Mapping[str, Any] | None = None
    """Under `end` in attempt-N.json."""
    command: tuple[str, ...] = ()
    """What it executed."""
    snapshot: str = ""
    """The copy of the code that it ran."""
    simulated: bool = False
    """Its GPUs were."""


def read(files: Files) -> Left:
    """Blocks. Raises nothing."""
    record = read_record(files.json)
    lines = digest(files.err, files.out, _LINES) if files.failed else ()
    end = record.get("end")
    return Left(
        lines,
        git_text(record.get("git")),
        str(record.get("host") or ""),
        cast("Mapping[str, Any]", end) if isinstance(end, dict) else None,
        words_in(record),
        str(record.get("snapshot") or ""),
        is_simulated(record),
    )


class Attempts:
    """At first the newest one is looked at, and stays to be when another one begins."""

    def __init__(self) -> None:
        self.details: Mapping[str, Any] | None = None
        """What the engine answers to `show`; None: it has not yet."""
        self._wanted = 0
        """0: the newest."""

    @property
    def numbers(self) -> list[int]:
        """Oldest first."""
        if self.details is None:
            return []
        running = self.details.get("running")
        return [each["number"] for each in self.details["attempts"]] + ([running["number"]] if running else [])

    @property
    def number(self) -> int:
        """Of the one that is looked at; 0: there is none."""
        numbers = self.numbers
        return self._wanted if self._wanted in numbers else max(numbers, default=0)

    @property
    def wanted(self) -> int:
        """Of one that is not the newest its number; 0: the newest, whichever that is."""
        return self._wanted

    def forget(self) -> None:
        """It is about another task."""
        self.details, self._wanted = None, 0

    def look_at(self, number: int) -> None:
        self._wanted = 0 if number == max(self.numbers, default=0) else number

    def beside(self, step: int) -> int | None:
        """The attempt before (-1) or after (1) the one that is looked at; None: that is the first, or the newest."""
        others = [number for number in self.numbers if (number - self.number) * step > 0]
        return None if not others else min(others) if step > 0 else max(others)

    @property
    def files(self) -> Files | None:
        """Of the one that is looked at."""
        found = self._entry
        if found is None:
            return None
        entry, lasts = found
        failed = not lasts and entry["kind"] != "ok"
        return Files(entry.get("json", ""), entry["log"], entry["err"], ended=not lasts, failed=failed)

    def curve_order(self, newest_started: float | None) -> Mapping[str, Any] | None:
        """What `curve_reader` is to read of the one that is looked at. *newest_started*: seconds since the epoch."""
        found = self._entry
        if found is None or self.details is None:
            return None
        entry, lasts = found
        newest = entry["number"] == max(self.numbers)
        metrics = [each for each in self.details.get("metrics", ()) if newest or not each["file"]]
        started = entry.get("started") or (newest_started if newest else None) or 0.0
        return {
            "out": entry["log"], "err": entry["err"], "metrics": metrics, "started": started, "running": lasts,
        }  # fmt: skip

    @property
    def _entry(self) -> tuple[Mapping[str, Any], bool] | None:
        """The one that is looked at, as the engine told of it, and whether it lasts."""
        details, number = self.details, self.number
        if details is None or not number:
            return None
        running = details.get("running")
        if running and running["number"] == number:
            return running, True
        return next(((each, False) for each in details["attempts"] if each["number"] == number), None)


@dataclass(frozen=True, slots=True)
class Known:
    """All that there is to show."""

    details: Mapping[str, Any]
    """An entry of the answer to `show`."""
    row: TaskRow
    attempt: int
    """The one that is looked at; 0: there is none yet."""
    left: Left | None = None
    """None: not read yet."""
    curves: Sequence[Curve] = ()
    reading: bool = False
    """More curves may come."""
    memory_mib: int | None = None
    """What the attempt that runs has on its GPUs now."""


def is_changed(task: Mapping[str, Any]) -> bool:
    """The file has other work for it than what it ran."""
    return "changed" in task["flags"]


_LOOKS = 5
"""So often the record of an attempt that has ended is looked for."""


class Gathering:
    """Of one task at a time."""

    def __init__(self, widget: Widget, news: Callable[[], None]) -> None:
        """Nothing is read any more when *widget* has gone. *news* is called when there is more to show."""
        self.attempts = Attempts()
        self._widget, self._news = widget, news
        self._files: BackgroundReader[Files, Left] = BackgroundReader(widget, read, news, kept=KEPT)
        self._order = ""
        """What the process that reads curves was told; "": there is none."""
        self._reading: Worker[None] | None = None
        self._curves: tuple[Curve, ...] = ()
        self._curves_of: tuple[str, int] = ("", 0)
        self._more_curves = False
        self._looks = 0

    @property
    def reads(self) -> bool:
        """A process reads curves."""
        return bool(self._order)

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
        self._read_curves(self.attempts.curve_order(started) if curves else None)

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
        self._read_curves(None)

    def _read_curves(self, order: Mapping[str, Any] | None) -> None:
        """*order*: what `curves.reader` is to read; the same again changes nothing."""
        text = "" if order is None else json.dumps(order, sort_keys=True)
        if text == self._order:
            return
        self._order = text
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self._widget.run_worker(self._take_curves(text)) if text else None

    async def _take_curves(self, order: str) -> None:
        with contextlib.suppress(OSError):
            async for line in lines_of("curves.reader", order):
                with contextlib.suppress(ValueError):  # it was killed within a line
                    self._curves = from_wire(json.loads(line))
                    self._news()
        self._more_curves = False
        self._news()
