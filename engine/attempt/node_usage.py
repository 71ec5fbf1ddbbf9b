"""What jobs of a cluster use of their GPUs: read from the samples that their wrappers write, TOKEN.gpu, as these grow.

A line is a card at a time: seconds since the epoch by the node's clock, index, percent, MiB used, MiB there, °C, watts.
Of several nodes only the first tells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from ..core.deck import Deck
from ..core.phases import Running
from ..core.readings import GpuReading
from ..ports import Aside
from .usage import Usage

PERIOD_S = 10.0
_TIMEOUT_S = 20.0
_MOST_BYTES = 8 << 20
"""Of one file at once: weeks of it are caught up with in a few turns."""

News = Mapping[str, tuple[int, tuple[tuple[GpuReading, ...], ...]]]
"""By token, how far its file was read, and the rounds of readings that were new."""


class NodeUsage:
    """All methods on the loop's thread; files are read aside."""

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
