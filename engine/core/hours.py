"""When a deck may start tasks: not before a moment (`begin`), and between two times of the day alone (`between`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

_LAST_DAYS = 3
"""A clock that is put forward skips a time of day; some day after it has it."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A moment of the box's own clock, to the minute."""

    hour: int
    minute: int
    day: tuple[int, int, int] | None = None
    """Year, month, day; None: each day."""

    def __str__(self) -> str:
        date = "" if self.day is None else "{:04}-{:02}-{:02} ".format(*self.day)
        return f"{date}{self.hour:02}:{self.minute:02}"

    def next(self, wall: float) -> float:
        """The first such moment at or after *wall*; of a single day that moment. Seconds since the epoch."""
        if self.day is not None:
            return datetime(*self.day, self.hour, self.minute).timestamp()
        today = datetime.fromtimestamp(wall).replace(hour=self.hour, minute=self.minute, second=0, microsecond=0)
        found = ((today + timedelta(days=more)).timestamp() for more in range(_LAST_DAYS))
        return next((moment for moment in found if moment >= wall), wall)


@dataclass(frozen=True, slots=True)
class Hours:
    """From one time of the day to another, of the next day where that is earlier."""

    first: Clock
    last: Clock

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def opens(self, wall: float) -> float:
        """*wall* itself within these hours, else the next moment in which they begin."""
        moment = datetime.fromtimestamp(wall)
        now = moment.hour, moment.minute
        first, last = (self.first.hour, self.first.minute), (self.last.hour, self.last.minute)
        within = first <= now < last if first < last else now >= first or now < last
        return wall if within else self.first.next(wall)
