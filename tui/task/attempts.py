"""The attempts of a task as the engine told of them, and which one of them is looked at. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .files import Files


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
