"""One trial: a run of a deck of its own, stopped after a while, and what became of it."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..client.connection import Connection, Gone, SaidGoodbye
from ..errors import EngineUnavailableError
from ..logs.log_file import read_tail
from ..logs.printable import lines_of
from ..protocol.states import ENDED
from ..protocol.wire import TaskRow
from ..runs.engines import MOST_LOST, TELL_S, WAITS, Asked, Engines, Wait

_LAST_LINES = 8

Verdict = Literal["fits", "oom", "failed", "stopped"]
"""stopped: somebody ended it before it told anything."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One that is over."""

    value: int
    verdict: Verdict
    reason: str
    """Of its end, in the engine's words."""
    duration_s: float
    gpus: tuple[int, ...] = ()
    peak_mib: int | None = None
    """Most memory on one of its cards; None: never read."""
    total_mib: int | None = None
    """What the smallest of these cards has."""
    logs: tuple[str, str] = ("", "")
    """Standard output and error."""
    steps: int = 0
    """How often progress was seen to move."""

    @property
    def room_mib(self) -> int | None:
        """What its card had left at the most."""
        return None if self.peak_mib is None or self.total_mib is None else self.total_mib - self.peak_mib

    def last_lines(self) -> Sequence[str]:
        """Of its standard error, or of what else it wrote."""
        tails = (lines_of(read_tail(path)) for path in reversed(self.logs) if path)
        return next((lines[-_LAST_LINES:] for lines in tails if any(lines)), ())


class Trials:
    """Runs them, through the engines that they may need."""

    def __init__(self, engines: Engines, asked: Asked, say: Callable[[str], None], *, steps: int | None) -> None:
        """*steps*: a trial that has moved on so often is enough. Without, the timeout of its entry ends it."""
        self._engines = engines
        self._asked = asked
        self._say = say
        self._steps = steps
        self._on_cpu = False
        """It was told that there are no GPUs."""

    def run(self, name: str, value: int) -> Trial:
        """*name*: the run's, which stands in the file. Raises EngineUnavailableError where its end is not known."""
        now = _Now(name, value, Wait(name, self._say))
        for _ in range(MOST_LOST):
            try:
                with self._engines.take(name, self._say) as connection:
                    return self._follow(connection, now)
            except SaidGoodbye as error:
                raise EngineUnavailableError(f"{error}: the trial of {value} is not over") from None
            except Gone:
                self._say("the engine is gone; the next one goes on with the trial")
        raise EngineUnavailableError("one engine after the other is lost")

    def _follow(self, connection: Connection, now: _Now) -> Trial:
        while True:
            row = connection.wait_for_picture().by_name().get(now.name)
            if row is None or row.gone:
                raise EngineUnavailableError(f"the trial of {now.value} was taken out of its task file")
            if row.progress is not None:
                now.moved.add(row.progress)
            if row.state in ENDED:
                return _over(connection, row, now)
            if row.state == "unknown":
                raise EngineUnavailableError(f"what became of the trial of {now.value} cannot be proven")
            self._stop(connection, now)
            if row.state in WAITS:
                now.wait.tell(connection)
            else:
                now.wait.over(row)
                self._tell_cpu(row)
            select.select([connection, self._asked], [], [], TELL_S if row.state in WAITS else None)
            self._asked.clear()
            connection.drain()

    def _tell_cpu(self, row: TaskRow) -> None:
        if row.on_cpu and not self._on_cpu:
            self._on_cpu = True
            self._say("no NVIDIA GPU on this box: trials run on the CPU and tell nothing of a GPU's memory")

    def _stop(self, connection: Connection, now: _Now) -> None:
        """Once it has done enough, or when we were told to: the second time it is killed."""
        if self._steps is not None and len(now.moved) >= self._steps and not now.enough and not self._asked.times:
            connection.request("cancel", tasks=[now.name])
            now.enough = True
        self._asked.hand_on(connection, now.name, "the trial", self._say)


@dataclass(slots=True)
class _Now:
    """One that is under way."""

    name: str
    value: int
    wait: Wait
    moved: set[float] = field(default_factory=set[float])
    """Shares of progress that were seen."""
    enough: bool = False
    """It was stopped because it has moved on often enough."""


def _over(connection: Connection, row: TaskRow, now: _Now) -> Trial:
    attempts: Sequence[dict[str, Any]] = connection.request("show", tasks=[now.name])[0]["attempts"]
    newest = attempts[-1] if attempts else {}
    gpus = connection.wait_for_picture().gpus
    totals = [gpu.total_mib for gpu in gpus if gpu.index in row.gpus and gpu.total_mib is not None]
    return Trial(
        now.value,
        verdict_of(row, enough=now.enough),
        row.reason,
        row.duration_s or 0.0,
        row.gpus,
        peak_mib=newest.get("peak_mib") or None,
        total_mib=min(totals, default=None),
        logs=(newest.get("log", ""), newest.get("err", "")),
        steps=len(now.moved),
    )


def verdict_of(row: TaskRow, *, enough: bool) -> Verdict:
    """*enough*: it was cancelled because it had moved on often enough."""
    if row.state == "cancelled":
        return "fits" if enough else "stopped"
    if row.state != "failed" or row.kind == "timeout":
        return "fits"
    return "oom" if row.kind == "oom" else "failed"
