"""How far a task is, from the counters in its output, and when it will be over. Pure: lines in, a share out.

What a line can tell is ranked, since most of it is about a part of the task only: what the task says itself
(`::gpudeck progress=3/100`, the user's pattern), then loops around epochs (seeds, folds), epochs, and steps or bars.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from .marks import Mark, Rank, left_in, marks_in, said_in
from .totals import Totals, Trust

MAX_DEPTH = 4
"""Bars within bars that are told apart."""
_COLUMNS = frozenset(("epoch", "iter", "iteration", "step", "round"))
_MAY_BE_ROW = re.compile(r"[\s|]{0,12}(?:\d{1,9}[\s|]|epoch|iter|step|round)", re.IGNORECASE)
_WHOLE_BAR = re.compile(r"progress|total|overall|\ball\b|steps", re.IGNORECASE)
_STRANGERS = 5
"""So many signs in a row that what is followed is over: counters with another total, bars that begin again."""


class _Level:
    """A counter of seeds, folds or epochs."""

    def __init__(self, mark: Mark, total: float | None) -> None:
        self.total = total
        self.own = mark.total is not None
        """Its lines say the total themselves."""
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
        self.alone = True
        """It has had this one number only."""
        self.lower: float | None = None
        """A lower number that stood in one line: a look back, or the first of another round."""

    def doubts(self, mark: Mark) -> bool:
        """A number without a total that is lower than the last is of this counter only if it goes on from there."""
        if self.own or mark.number >= self.number:
            self.lower = None
            return False
        if self.lower is not None and mark.number > self.lower:
            return False
        self.lower = mark.number
        return True

    def take(self, mark: Mark) -> bool:
        """Whether another one is under way now."""
        moved = mark.number != self.number
        if mark.number < self.number:
            if self.alone and not self.own:  # a setting, not a counter
                self.zero_based = self.lower == 0
            else:
                self.repeats = True
        self.alone = self.alone and (not moved or mark.number < self.number)
        self.lower = None
        self.zero_based = self.zero_based or mark.number == 0
        self.exact = self.exact or mark.label == "dict"
        self.number, self.counted, self.misses = mark.number, mark.counted, 0
        self.closed = mark.closed or (self.closed and not moved)
        return moved

    def share(self, inner: float | None) -> float | None:
        if self.total is None:
            return None
        done = self.number if self.counted or self.exact else self.number - (not self.zero_based)
        if self.exact:
            inner = None
        elif not self.counted and (self.after or (self.closed and inner is None)):
            done += 1
        return min(1.0, (done + (inner or 0.0)) / self.total)


class _Count:
    """Steps of the whole task, of which a setting tells how many there are."""

    def __init__(self, mark: Mark, total: float, epoch: float | None) -> None:
        self.unit, self.number, self.total = mark.unit, mark.number, total
        self.known = re.match("global|total|num", mark.label) is not None
        self.epochs = epoch
        self.steady = epoch is None
        """It has gone on where an epoch began: it is not about the epoch."""
        self.repeats = 0

    def take(self, mark: Mark, total: float, epoch: float | None) -> None:
        self.total = total
        if mark.number < self.number:
            self.repeats += 1
            if self.repeats > 1:  # one may be a look back
                self.number = mark.number
            return
        if epoch is not None and epoch != self.epochs:
            self.steady = self.steady or (self.epochs is not None and mark.number > self.number)
            self.epochs = epoch
        self.number = mark.number

    @property
    def share(self) -> float | None:
        return self.number / self.total if self.repeats < 2 and (self.steady or self.known) else None


class _Bar:
    """A bar or a counter of steps."""

    def __init__(self, key: tuple[str, float], number: float) -> None:
        self.key = key
        self.total = key[1]
        self.number = number


class Tracker:
    """Follows one attempt's output. `share` never goes back while it is read from the same counter."""

    def __init__(self, *, read: Callable[[str], float | Mark | None] | None = None, command: str = "") -> None:
        """*read*: the user's own way; then only this and `::gpudeck` lines count. *command*: may say how many epochs or
        steps there are."""
        self._read = read
        self._totals = Totals(command)
        self._count: _Count | None = None
        self._column = ""
        """What the lines of a table are about whose head was printed."""
        self._columns = 0
        self._laps = 0
        """How often the first bar has begun again."""
        self._lap: tuple[str, float] | None = None
        self._left_s: float | None = None
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

    def read_settings(self, line: str) -> None:
        """Only what a line says of how many epochs or steps there are to be."""
        self._totals.read(line)

    def feed(self, line: str) -> None:
        """Take a line or a frame of a bar in, without line end."""
        if "::gpudeck " in line:
            share, _ = said_in(line)
            self._whole = share if share is not None else self._whole
            return
        self._totals.read(line)
        if self._read is not None:
            self._take_own(self._read(line))
            return
        marks = marks_in(line) or self._row_of_table(line)
        self._take(marks)
        self._left_s = found if (found := left_in(line, marks)) is not None else self._left_s

    def left_s(self) -> float | None:
        """The seconds that the program itself promised to the end, where it did since this was last asked."""
        left_s, self._left_s = self._left_s, None
        return left_s

    def _take_own(self, found: float | Mark | None) -> None:
        if isinstance(found, Mark):
            total = self._totals.of(found.unit)
            found = found.number / total if total is not None and found.number <= total else None
        self._whole = found if found is not None else self._whole

    def _row_of_table(self, line: str) -> list[Mark]:
        """`0         0.123456    0.1         00:12` below `epoch     train_loss  valid_loss  time`."""
        if not _MAY_BE_ROW.match(line):
            return []
        cells = line.replace("|", " ").split()
        word = cells[0].lower() if cells else ""
        if word in _COLUMNS and len(cells) >= 3 and not any(cell[0].isdigit() for cell in cells):
            self._column, self._columns = word, len(cells)
        elif self._column and len(cells) == self._columns and word.isdigit() and "." in line:
            number = float(word[:12])
            if self._column == "epoch":
                return [Mark(Rank.EPOCH, number, None, "epoch", closed=True, unit="epoch")]
            unit = "round" if self._column == "round" else "step"
            return [Mark(Rank.STEP, number, None, self._column, counted=True, unit=unit)]
        return []

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
        if self._count is not None and (share := self._count.share) is not None:
            return Rank.STEP, ("count", self._count.unit, self._count.total), share
        if self._levels:
            return None
        laps = self._laps_of_all()
        if laps is not None and inner is not None and self._laps:
            return (Rank.EPOCH, ("laps", laps), (self._laps + inner) / laps) if self._laps < laps else None
        if self._bars_repeat or (laps is not None and self._bars):
            return None
        if inner is not None:
            return Rank.STEP, self._bars[0].key, inner
        return None if self._aside is None else (Rank.ASIDE, Rank.ASIDE, self._aside)

    def _laps_of_all(self) -> float | None:
        """How often the bars that are seen will be drawn, where they are for an epoch each: they do not say so, but
        the command asks for several epochs. Hugging Face's are for all of them."""
        epochs = self._totals.of("epoch")
        if epochs is None or epochs < 2 or not self._bars or not self._totals.trusted("epoch", Trust.COMMAND):
            return None
        bar = self._bars[0]
        whole = bar.total in (epochs, self._totals.of("step")) or _WHOLE_BAR.search(bar.key[0]) is not None
        return None if whole or (self._totals.is_of_training() and not self._laps) else epochs

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
                case Rank.STEP if mark.unit:
                    self._take_count(mark)
                case Rank.ASIDE if mark.total is not None:
                    self._aside = mark.number / mark.total
                case _:
                    pass

    def _take_count(self, mark: Mark) -> None:
        total = self._totals.of(mark.unit)
        if total is not None and mark.number > total:
            self._totals.doubt(mark.unit, total)
            total = self._totals.of(mark.unit)
        if total is None or mark.number > total:
            if self._count is not None and self._count.unit == mark.unit:
                self._count = None
            return
        level = self._levels.get(Rank.EPOCH)
        epoch = None if level is None or self._totals.trusted(mark.unit, Trust.LOOP) else level.number
        if self._count is None or (self._count.unit != mark.unit and mark.unit == "timestep"):
            self._count = _Count(mark, total, epoch)
        elif self._count.unit == mark.unit:
            self._count.take(mark, total, epoch)

    def _total_of(self, mark: Mark) -> float | None:
        """As its line says, else as the settings do, as long as the number does not pass that."""
        if mark.total is not None:
            return mark.total
        total = self._totals.of(mark.unit)
        if total is not None and mark.number > total:
            if mark.label != "dict":
                self._totals.doubt(mark.unit, total)
            return None
        return total

    def _take_level(self, mark: Mark, *, has_step: bool) -> None:
        total = self._total_of(mark)
        if total is None and mark.unit and (mark.label == "dict" or mark.unit != "epoch"):
            return
        level = self._levels.get(mark.rank)
        own = mark.total is not None
        if level is not None and own != level.own:
            if own:
                level = None
            elif mark.number != level.number or not mark.closed:
                return
            else:
                total = level.total
        if level is not None and not own and level.doubts(mark):
            return
        if level is not None and own and total is not None and level.total not in (None, total):
            level.misses += 1
            if level.misses < _STRANGERS and level.number < (level.total or 0):
                return
            level = None
        if level is None:
            self._levels[mark.rank] = _Level(mark, total)
            moved = True
        else:
            level.total = total
            moved = level.take(mark)
        if moved and mark.rank is Rank.OUTER:
            self._levels.pop(Rank.EPOCH, None)
        if mark.closed and moved and not has_step and self._bars:
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
            self._laps += key == self._lap
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
            self._laps += not self._bars and key == self._lap
            self._again += 1
            self._drop_stale()
        if len(self._over) > 64:
            self._over.clear()
        if self._lap is None:
            self._lap = key
        del self._bars[MAX_DEPTH - 1 :]
        self._bars.append(_Bar(key, number))

    def _drop_stale(self) -> None:
        """An outermost bar that stays where it is while others begin again and again was given up."""
        if self._again >= _STRANGERS and len(self._bars) > 1:
            self._bars.clear()
            self._bars_repeat = True


def _nothing(_: str) -> float | None:
    return None


_SAMPLES = 64
_APART_S = 1.0
_WINDOW_S = 60.0
_MAX_ETA_S = 10 * 365 * 86400.0
_SETTLED_S: dict[Rank, float] = {Rank.STEP: 20.0, Rank.ASIDE: 60.0}
"""For how long a bar must have been followed before an end is read from it: it may be one of many."""
_SETTLED_ELSE_S = 3.0


class Pace:
    """When a share will be 1, from how fast it grew of late: in the last quarter of the time, and at least a minute."""

    def __init__(self) -> None:
        self._first_at = 0.0
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)

    def add(self, at: float, share: float) -> None:
        """*at*: seconds of a clock that only goes forward."""
        samples = self._samples
        if not samples:
            self._first_at = at
        elif share <= samples[-1][1]:
            return
        # So far apart the samples that are kept reach back over more than the window.
        apart_s = max(_APART_S, (at - self._first_at) / (2 * _SAMPLES))
        if len(samples) > 1 and samples[-1][0] - samples[-2][0] < apart_s:
            samples.pop()
        samples.append((at, share))

    def end(self, now: float, rank: Rank) -> float | None:
        """The time of the end on the same clock; None: too little is known, or the counter came to its end and the task
        runs on."""
        samples = self._samples
        if len(samples) < 2:
            return None
        last_at, last = samples[-1]
        if last >= 1.0:
            return None
        if last_at - self._first_at < _SETTLED_S.get(rank, _SETTLED_ELSE_S):
            return None
        begin_at, begin, steps = self._window(now)
        usual_s = (last_at - begin_at) / steps
        until = last_at if now - last_at <= 2 * usual_s else now
        left_s = (1.0 - last) * (until - begin_at) / (last - begin)
        return max(now, until + left_s) if left_s <= _MAX_ETA_S else None

    def _window(self, now: float) -> tuple[float, float, int]:
        """Where the recent past begins, and how many steps it has."""
        samples = self._samples
        long_s = max(_WINDOW_S, (now - self._first_at) / 4)
        steps = min(2, len(samples) - 1)
        while steps < len(samples) - 1 and samples[-1][0] - samples[-1 - steps][0] < long_s:
            steps += 1
        return (*samples[-1 - steps], steps)
