"""Every attempt that a deck knows of, with what its attempt-N.json and attempt-N.gpu.json tell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

import msgspec

from ..core.deck import Task
from ..core.phases import Attempt, Ended
from ..logs.described import describe
from ..logs.gpu_history import GpuHistory, read_history
from ..offline.deck import Offline
from ..offline.look import STANDING
from .data import AttemptPart

UNTOLD = "untold"
"""The kind of an attempt whose end is not in the journal."""


class _Gpu(msgspec.Struct):
    index: int


class Git(msgspec.Struct):
    commit: str = ""
    dirty: bool = False
    branch: str = ""

    @property
    def text(self) -> str:
        parts = [self.commit[:12], f"on {self.branch}" if self.branch else ""]
        return " ".join(filter(None, parts)) + (", with changes" if self.dirty else "")


class _End(msgspec.Struct):
    peak_mib: float | None = None
    mean_util_percent: float | None = None
    mean_power_w: float | None = None
    energy_wh: float | None = None


class Told(msgspec.Struct):
    """What of an attempt-N.json a report shows: neither its command nor its environment."""

    host: str = ""
    git: Git | None = None
    gpus: list[_Gpu] = []
    end: _End | None = None


class Attempts:
    """Reads two small files for each attempt, once."""

    def __init__(self, offline: Offline) -> None:
        self._offline = offline
        self.told: dict[tuple[str, int], Told] = {}

    def all(self) -> Iterator[AttemptPart]:
        """Task by task in file order, those that the file no longer has last; oldest first."""
        deck = self._offline.deck
        for task in deck.tasks:
            yield from self._of(task)
        for name, ended in deck.past.ended.items():
            if name not in deck.by_name:
                yield from (self._ended(name, one) for one in ended)

    def _of(self, task: Task) -> Iterator[AttemptPart]:
        yield from (self._ended(task.name, ended) for ended in task.ended)
        attempt = task.attempt()
        if attempt is not None:
            told, history = self._read(task.name, attempt.number)
            offline = self._offline
            standing = "runs" if offline.holder is not None else offline.standing(attempt.token)
            runs = standing == "runs"
            yield AttemptPart(
                task.name,
                attempt.number,
                offline.deck.run.number,
                attempt.wall,
                None if runs else self._last_sign(task.name, attempt, history),
                "" if runs else UNTOLD,
                "runs" if runs else STANDING[standing],
                self._gpus(told, attempt.gpus),
                history=history,
                **_so_far(history, len(attempt.gpus)),
            )

    def _last_sign(self, name: str, attempt: Attempt, history: GpuHistory | None) -> float:
        """When an attempt of which no engine knows the end was last seen to live."""
        signs = [attempt.wall, attempt.wall + history.at_s[-1] if history is not None and history.at_s else 0.0]
        paths = self._offline.logs.paths(name, attempt.number, False)
        for path in (paths.out, paths.err):
            with contextlib.suppress(OSError):
                signs.append(os.stat(path).st_mtime)
        return max(signs)

    def _ended(self, name: str, ended: Ended) -> AttemptPart:
        told, history = self._read(name, ended.number)
        end = told.end or _End()
        return AttemptPart(
            name,
            ended.number,
            ended.run,
            ended.wall - ended.duration_s,
            ended.wall,
            ended.outcome.reason,
            describe(ended.outcome),
            self._gpus(told, ended.gpus),
            end.energy_wh,
            end.mean_power_w,
            end.mean_util_percent,
            end.peak_mib or ended.peak_mib or None,
            history,
        )

    def _gpus(self, told: Told, uuids: tuple[str, ...]) -> tuple[int, ...]:
        index_of = self._offline.index_of
        if len(told.gpus) == len(uuids):
            return tuple(gpu.index for gpu in told.gpus)
        return tuple(index_of[uuid] for uuid in uuids if uuid in index_of)

    def _read(self, name: str, number: int) -> tuple[Told, GpuHistory | None]:
        paths = self._offline.logs.paths(name, number, False)
        told = self.told[name, number] = _told(paths.json)
        return told, read_history(paths.gpu_history) if told.gpus else None


def _told(path: str) -> Told:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Told)
    except (OSError, msgspec.DecodeError):
        return Told()


def _so_far(history: GpuHistory | None, cards: int) -> Mapping[str, float | None]:
    """Of an attempt that lasts, as of when its history was last written."""
    if history is None:
        return {}
    drawn = [(joules, seconds) for joules, seconds in history.drawn.values() if seconds > 0]
    known = len(drawn) == cards
    return {
        "energy_wh": sum(joules for joules, _ in drawn) / 3600 if known else None,
        "mean_power_w": sum(joules / seconds for joules, seconds in drawn) if known else None,
        "mean_util_percent": history.util_sum / history.util_count if history.util_count else None,
        "peak_mib": history.peak_mib,
    }
