"""What attempts use of their GPUs: summed up from the readings while they run, and kept in attempt-N.gpu.json.

What jobs of a cluster use is read from the samples that their wrappers write, TOKEN.gpu, as these grow. A line is a
card at a time: seconds since the epoch by the node's clock, index, percent, MiB used, MiB there, °C, watts. Of several
nodes only the first tells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ..core.deck import Deck
from ..core.devices import Gpu
from ..core.phases import Attempt, Running
from ..core.readings import GpuReading
from ..logs.files import AttemptPaths
from ..ports import Aside
from .gpu_history import GpuHistory, Used, encode_history, read_history
from .writer import AttemptJsonWriter

GAP_S = 15.0
"""Power is not carried over a longer time without readings."""
SAVE_S = 30.0
_FIRST_SAVE_S = 5.0
PERIOD_S = 10.0
_TIMEOUT_S = 20.0
_MOST_BYTES = 8 << 20
"""Of one file at once: weeks of it are caught up with in a few turns."""


class Meter:
    """Of one card."""

    def __init__(self) -> None:
        self.first: GpuReading | None = None
        self._last: GpuReading | None = None

    def read(self, reading: GpuReading) -> tuple[float, float]:
        """Joules that the card used since the reading before, and the seconds in which it did; (0, 0): nobody knows."""
        last, self._last = self._last, reading
        self.first = self.first or reading
        if last is None or reading.at <= last.at:
            return 0.0, 0.0
        seconds = reading.at - last.at
        joules = between(last.energy_j, reading.energy_j)
        if joules is None and seconds <= GAP_S:
            told = [watts for watts in (last.power_w, reading.power_w) if watts is not None]
            joules = sum(told) / len(told) * seconds if told else None
        return (0.0, 0.0) if joules is None else (joules, seconds)


def between(earlier_j: float | None, later_j: float | None) -> float | None:
    """None: there is no counter, or it began anew with the driver."""
    if earlier_j is None or later_j is None or later_j < earlier_j:
        return None
    return later_j - earlier_j


class Usage:
    """Collects by token, and forgets an attempt when it is asked for the last time."""

    def __init__(self) -> None:
        self._used: dict[str, Used] = {}
        self._meters: dict[str, Meter] = {}
        self._elsewhere: dict[str, dict[str, Meter]] = {}
        """Of cards on other machines, by token."""

    def take(self, readings: Iterable[GpuReading], gpus: Mapping[str, Gpu]) -> None:
        """Add one round of readings. Utilisation is the card's: attempts that share one share it. Energy of a shared
        card is divided equally among those that hold it."""
        read_at: dict[str, float] = {}
        for reading in readings:
            gpu = gpus.get(reading.uuid)
            if gpu is None or reading.lost:
                continue
            drawn = self._meters.setdefault(reading.uuid, Meter()).read(reading)
            for token, attempt in gpu.holders.items():
                if reading.at >= attempt.at:
                    read_at.setdefault(token, reading.at - attempt.at)
                    self._add(token, attempt, reading, drawn, len(gpu.holders))
        for token, at_s in read_at.items():
            self._used[token].close_round(at_s)

    def _add(self, token: str, attempt: Attempt, reading: GpuReading, drawn: tuple[float, float], holders: int) -> None:
        used = self._used.setdefault(token, Used())
        share_w = None if reading.power_w is None else reading.power_w / holders
        used.add(attempt.measured.get(reading.uuid), reading.util_percent, share_w)
        joules, seconds = drawn
        lasted_s = min(seconds, reading.at - attempt.at)
        if seconds:
            used.draw(reading.uuid, joules / holders * (lasted_s / seconds), lasted_s)
        if reading.energy_j is not None:
            used.history.counters[reading.uuid] = (reading.at, reading.energy_j)

    def tell(self, token: str, at_s: float, readings: Iterable[GpuReading]) -> None:
        """Add one round of readings of cards that an attempt has to itself on another machine, where their `uuid` and
        clock mean something; *at_s*: since it began."""
        used = self._used.setdefault(token, Used())
        for reading in readings:
            used.add(reading.used_mib, reading.util_percent, reading.power_w)
            joules, seconds = self._elsewhere.setdefault(token, {}).setdefault(reading.uuid, Meter()).read(reading)
            if seconds:
                used.draw(reading.uuid, joules, seconds)
        used.close_round(at_s)

    def go_on(self, token: str, earlier: GpuHistory, gpus: Mapping[str, Gpu]) -> None:
        """An earlier engine has read this of an attempt that lasts. What its cards used in between is known where the
        driver counts."""
        for uuid, (at, energy_j) in earlier.counters.items():
            meter, gpu = self._meters.get(uuid), gpus.get(uuid)
            first = meter.first if meter is not None else None
            joules = between(energy_j, first.energy_j) if first is not None else None
            if first is not None and joules is not None and first.at > at:
                before_j, before_s = earlier.drawn.get(uuid, (0.0, 0.0))
                share = joules / max(1, len(gpu.holders) if gpu is not None else 1)
                earlier.drawn[uuid] = (before_j + share, before_s + first.at - at)
        self._used[token] = self.peek(token).behind(earlier)

    def histories(self) -> Mapping[str, GpuHistory]:
        """By token, of those that were read at least twice."""
        return {token: used.history for token, used in self._used.items() if len(used.history.at_s) > 1}

    def peek(self, token: str) -> Used:
        return self._used.get(token) or Used()

    def finish(self, token: str) -> Used:
        self._elsewhere.pop(token, None)
        return self._used.pop(token, None) or Used()


class GpuHistories:
    """Keeps attempt-N.gpu.json: at an attempt's end, and now and then before, so that a later engine goes on with it.
    All methods on the loop's thread."""

    def __init__(
        self,
        deck: Deck,
        usage: Usage,
        writer: AttemptJsonWriter,
        paths: Callable[[str, int], AttemptPaths],
        aside: Aside,
    ) -> None:
        self._deck = deck
        self._usage = usage
        self._writer = writer
        self._paths = paths
        self._aside = aside
        self._save_at: float | None = None

    def sampled(self, readings: Sequence[GpuReading]) -> None:
        self._usage.take(readings, self._deck.present_gpus)
        now = max((reading.at for reading in readings), default=0.0)
        if self._save_at is None:
            self._save_at = now + _FIRST_SAVE_S
        elif now >= self._save_at:
            self._save_at = now + SAVE_S
            self.save()

    def save(self) -> None:
        """What attempts that last have used so far."""
        for token, history in self._usage.histories().items():
            task = self._deck.active.get(token)
            attempt = task.attempt() if task is not None else None
            if task is not None and attempt is not None:
                path = self._paths(task.name, attempt.number).gpu_history
                self._writer.keep(path, encode_history(history))

    def go_on(self, token: str, paths: AttemptPaths) -> None:
        """An earlier engine started this attempt."""
        self._aside.submit(lambda: read_history(paths.gpu_history), partial(self._arrived, token))

    def _arrived(self, token: str, earlier: GpuHistory | None) -> None:
        if earlier is not None and token in self._deck.active:
            self._usage.go_on(token, earlier, self._deck.present_gpus)

    def finish(self, token: str, paths: AttemptPaths) -> Used:
        """An attempt has ended: what it used in all."""
        used = self._usage.finish(token)
        if len(used.history.at_s) > 1:
            self._writer.keep(paths.gpu_history, encode_history(used.history))
        return used


News = Mapping[str, tuple[int, tuple[tuple[GpuReading, ...], ...]]]
"""By token, how far its file was read, and the rounds of readings that were new."""


class NodeUsage:
    """Of jobs of a cluster. All methods on the loop's thread; files are read aside."""

    def __init__(
        self,
        deck: Deck,
        usage: Usage,
        folder: str,
        aside: Aside,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """*folder* has the files. *later* makes a call after so many seconds."""
        self._deck = deck
        self._usage = usage
        self._folder = folder
        self._aside = aside
        self._later = later
        self._read: dict[str, int] = {}
        self._due = False

    def wake(self) -> None:
        """Something may run now."""
        if self._deck.cluster and self._deck.active and not self._due:
            self._due = True
            self._later(PERIOD_S, self._look)

    def _look(self) -> None:
        running = {token for token, task in self._deck.active.items() if isinstance(task.phase, Running)}
        self._read = {token: self._read.get(token, 0) for token in running}
        self._aside.submit(partial(_news, self._folder, dict(self._read)), self._arrived, timeout_s=_TIMEOUT_S)

    def _arrived(self, news: News | None) -> None:
        self._due = False
        for token, (read, rounds) in (news or {}).items():
            task = self._deck.active.get(token)
            attempt = task.attempt() if task is not None else None
            if attempt is not None:
                self._read[token] = read
                for readings in rounds:
                    self._usage.tell(token, max(0.0, readings[0].at - attempt.wall), readings)
        self.wake()


def _news(folder: str, read: Mapping[str, int]) -> News:
    found: dict[str, tuple[int, tuple[tuple[GpuReading, ...], ...]]] = {}
    for token, offset in read.items():
        try:
            with open(os.path.join(folder, f"{token}.gpu"), "rb") as file:
                file.seek(offset)
                new = file.read(_MOST_BYTES)
        except OSError:
            continue
        whole = new[: new.rfind(b"\n") + 1]
        if whole:
            found[token] = offset + len(whole), tuple(rounds_in(whole.decode(errors="replace")))
    return found


def rounds_in(text: str) -> Iterator[tuple[GpuReading, ...]]:
    """Readings of all of a job's cards at a time, cards by their index; lines that are none are passed over."""
    found: dict[str, GpuReading] = {}
    for line in text.splitlines():
        reading = _reading(line)
        if reading is None:
            continue
        if reading.uuid in found:
            yield tuple(found.values())
            found = {}
        found[reading.uuid] = reading
    if found:
        yield tuple(found.values())


def _reading(line: str) -> GpuReading | None:
    parts = line.split(",")
    at = _number(parts[0])
    if len(parts) != 7 or at is None or not parts[1].isdecimal():
        return None
    util, used_mib, total_mib, temperature = (_whole(part) for part in parts[2:6])
    return GpuReading(parts[1], at, total_mib, used_mib, util, temperature, _number(parts[6]))


def _number(text: str) -> float | None:
    """None: "[N/A]" and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def _whole(text: str) -> int | None:
    number = _number(text)
    return None if number is None else round(number)
