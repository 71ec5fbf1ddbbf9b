"""How far a task is, from the counters in its output. Pure: lines in, a share out.

What a line can tell is ranked, since most of it is about a part of the task only: what the task says itself
(`::gpudeck progress=3/100`, the user's pattern), then loops around epochs (seeds, folds), epochs, and steps or bars.
"""

from __future__ import annotations

from collections.abc import Callable

from .marks import Mark, Rank, epochs_said_in, marks_in, said_in

MAX_DEPTH = 4
"""Bars within bars that are told apart."""
_STRANGERS = 5
"""So many signs in a row that what is followed is over: counters with another total, bars that begin again."""


class _Level:
    """A counter of seeds, folds or epochs."""

    __slots__ = ("after", "closed", "counted", "exact", "misses", "number", "repeats", "total", "zero_based")

    def __init__(self, mark: Mark, total: float | None) -> None:
        self.total = total
        self.exact = mark.label == "dict"
        """Its number says all: 1.25 epochs."""
        self.after = False
        """It is told when an epoch is over: what comes next belongs to the next one."""
        self.number = mark.number
        self.zero_based = mark.number == 0
        self.counted = mark.counted
        self.closed = mark.closed
        self.repeats = False
        """It has begun again: it is not about the whole task."""
        self.misses = 0

    def take(self, mark: Mark) -> bool:
        """Whether another one is under way now."""
        moved = mark.number != self.number
        self.repeats = self.repeats or mark.number < self.number
        self.zero_based = self.zero_based or mark.number == 0
        self.number, self.counted, self.misses = mark.number, mark.counted, 0
        self.closed = mark.closed or (self.closed and not moved)
        return moved

    def share(self, inner: float | None) -> float | None:
        if self.total is None:
            return None
        done = self.number if self.counted else self.number - (not self.zero_based)
        if self.exact:
            inner = None
        elif not self.counted and (self.after or (self.closed and inner is None)):
            done += 1
        return min(1.0, (done + (inner or 0.0)) / self.total)


class _Bar:
    """A bar or a counter of steps."""

    __slots__ = ("key", "number", "total")

    def __init__(self, key: tuple[str, float], number: float) -> None:
        self.key = key
        self.total = key[1]
        self.number = number


class Tracker:
    """Follows one attempt's output. `share` never goes back while it is read from the same counter."""

    def __init__(self, *, read: Callable[[str], float | None] | None = None, epochs: int | None = None) -> None:
        """*read*: the user's own way; then only this and `::gpudeck` lines count. *epochs*: how many there are, for
        output that does not say so."""
        self._read = read
        self._epochs = epochs
        self._whole: float | None = None
        self._levels: dict[Rank, _Level] = {}
        self._bars: list[_Bar] = []
        self._over: set[tuple[str, float]] = set()
        """Bars that have come to their end."""
        self._again = 0
        """How often a bar has begun again since the outermost one has moved."""
        self._bars_repeat = False
        self._aside: float | None = None
        self._shown: tuple[object, float] | None = None
        """What the share is read from, and the most that it has been."""

    def stop_reading(self) -> None:
        """The user's pattern is of no use: only `::gpudeck` lines count from here on."""
        self._read = _nothing

    def feed(self, line: str) -> None:
        """Take a line or a frame of a bar in, without line end."""
        if "::gpudeck " in line:
            share, _ = said_in(line)
            self._whole = share if share is not None else self._whole
        elif self._read is not None:
            share = self._read(line)
            self._whole = share if share is not None else self._whole
        else:
            self._epochs = epochs_said_in(line) or self._epochs
            self._take(marks_in(line))

    @property
    def rank(self) -> Rank | None:
        """What the share is about."""
        source = self._source()
        return None if source is None else source[0]

    @property
    def share(self) -> float | None:
        """How much of the task is done, 0 to 1; None: not known."""
        source = self._source()
        if source is None:
            return None
        _, key, share = source
        if self._shown is not None and self._shown[0] == key:
            share = max(share, self._shown[1])
        self._shown = (key, share)
        return share

    @property
    def key(self) -> object:
        """Changes when the share begins to be about something else."""
        source = self._source()
        return None if source is None else source[1]

    def _source(self) -> tuple[Rank, object, float] | None:
        if self._whole is not None:
            return Rank.WHOLE, Rank.WHOLE, self._whole
        inner = self._inner()
        for rank in (Rank.OUTER, Rank.EPOCH):
            level = self._levels.get(rank)
            if level is None or level.total is None or level.repeats:
                continue
            below = self._levels.get(Rank.EPOCH) if rank is Rank.OUTER else None
            within = below.share(inner) if below is not None else inner
            share = level.share(within)
            if share is not None:
                return rank, (rank, level.total), share
        if self._levels or self._bars_repeat:
            return None
        if inner is not None:
            return Rank.STEP, self._bars[0].key, inner
        return None if self._aside is None else (Rank.ASIDE, Rank.ASIDE, self._aside)

    def _inner(self) -> float | None:
        """The share of what is under way within an epoch, bars within bars taken together."""
        share: float | None = None
        for bar in reversed(self._bars):
            share = min(1.0, (bar.number + (share or 0.0)) / bar.total)
        return share

    def _take(self, marks: list[Mark]) -> None:
        has_step = any(mark.rank is Rank.STEP for mark in marks)
        for mark in marks:
            match mark.rank:
                case Rank.OUTER | Rank.EPOCH:
                    self._take_level(mark, has_step=has_step)
                case Rank.STEP if mark.total is not None:
                    self._take_bar((mark.label, mark.total), mark.number)
                case Rank.ASIDE if mark.total is not None:
                    self._aside = mark.number / mark.total
                case _:
                    pass

    def _take_level(self, mark: Mark, *, has_step: bool) -> None:
        total = mark.total if mark.total is not None else float(self._epochs) if self._epochs else None
        if mark.label == "dict" and (total is None or mark.number > total):
            return
        level = self._levels.get(mark.rank)
        if level is not None and total is not None and level.total not in (None, total):
            level.misses += 1
            if level.misses < _STRANGERS and level.number < (level.total or 0):
                return
            level = None
        if level is None:
            self._levels[mark.rank] = _Level(mark, total)
            moved = True
        else:
            level.total = level.total if level.total is not None else total
            moved = level.take(mark)
        if moved and mark.rank is Rank.OUTER:
            self._levels.pop(Rank.EPOCH, None)
        if mark.closed and not has_step and self._bars:
            self._levels[mark.rank].after = True
        if moved or (mark.closed and not has_step):
            self._bars.clear()
            self._over.clear()
            self._again = 0

    def _take_bar(self, key: tuple[str, float], number: float) -> None:
        place = next((place for place, bar in enumerate(self._bars) if bar.key == key), None)
        if place is None:
            self._push(key, number)
            return
        bar = self._bars[place]
        if number < bar.number and place == 0:
            self._bars_repeat = True
        if number != bar.number:
            del self._bars[place + 1 :]
            self._again = self._again + 1 if number < bar.number else 0 if place == 0 else self._again
            self._drop_stale()
        bar.number = number

    def _push(self, key: tuple[str, float], number: float) -> None:
        while self._bars and self._bars[-1].number >= self._bars[-1].total:
            self._over.add(self._bars.pop().key)
        if key in self._over:
            self._bars_repeat = self._bars_repeat or not self._bars
            self._again += 1
            self._drop_stale()
        if len(self._over) > 64:
            self._over.clear()
        del self._bars[MAX_DEPTH - 1 :]
        self._bars.append(_Bar(key, number))

    def _drop_stale(self) -> None:
        """An outermost bar that stays where it is while others begin again and again was given up."""
        if self._again >= _STRANGERS and len(self._bars) > 1:
            self._bars.clear()
            self._bars_repeat = True


def _nothing(_: str) -> float | None:
    return None
