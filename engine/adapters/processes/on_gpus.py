"""What sits on an attempt's GPUs and is explained by nothing: it may be what is left of an attempt that nobody finds.

A program can erase its environment, leave its session and lose its parents. Then only the driver knows of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ...core.readings import GpuReading, Process
from . import proc
from .family import Attempt, Picture

Look = Callable[[Sequence[str]], tuple[GpuReading, ...]]
"""One reading of GPUs, by UUID; () when the driver gives none in time. May take seconds."""

_DRAINING_S = 3.0
"""The driver lists what was killed, and counts its memory, for a moment longer."""
_AGAIN_S = 0.2
_UNLISTED_MIB = 1024
"""Memory that no listed process has. Less than this the driver uses by itself."""


@dataclass(slots=True)
class OnGpus:
    """Asks the driver once nothing else speaks against it that attempts are gone."""

    look: Look
    _deadline_s: float | None = None

    def begin(self) -> None:
        """Attempts are about to be judged: they share the time that dead processes get to leave their GPUs."""
        self._deadline_s = None

    def speaks_for(self, attempt: Attempt, gpus: Sequence[str], others: Collection[int], seen: Picture) -> str:
        """Why *attempt* may live although no process of it is found; "" when nothing on its GPUs says so.

        *others*: session leaders of other attempts. *seen*: the processes of the box, a moment ago.
        """
        if self._deadline_s is None:
            self._deadline_s = time.monotonic() + _DRAINING_S
        while why := self._judged(attempt, gpus, others, seen):
            if time.monotonic() > self._deadline_s:
                return why
            time.sleep(_AGAIN_S)
        return ""

    def _judged(self, attempt: Attempt, gpus: Sequence[str], others: Collection[int], seen: Picture) -> str:
        readings = self.look(gpus)
        if len(readings) < len(gpus):
            return "the driver does not tell what runs on its GPU"
        for reading in readings:
            if reading.lost:
                return f"its GPU does not answer: {reading.lost}"
            computing = [process for process in reading.processes if not process.graphics]
            strange = [p.pid for p in computing if not _explained(p, attempt, others, seen)]
            if strange:
                pids = ", ".join(map(str, strange))
                return f"pid {pids} on its GPU may belong to it: nothing else explains it"
            if _unlisted_mib(reading) > _UNLISTED_MIB:
                return f"{_unlisted_mib(reading) / 1024:.1f} GiB of its GPU are used by nothing that can be seen"
        return ""


def _unlisted_mib(reading: GpuReading) -> int:
    if reading.used_mib is None or any(process.used_mib is None for process in reading.processes):
        return 0
    return reading.used_mib - sum(process.used_mib or 0 for process in reading.processes)


def _explained(process: Process, attempt: Attempt, others: Collection[int], seen: Picture) -> bool:
    """It is older than the attempt, another user's, or of another attempt's tree."""
    stat = seen.processes.get(process.pid) or proc.stat(process.pid)
    if stat is None:
        return False
    if stat.start_ticks + proc.doubt_ticks() < attempt.start_ticks or _another_users(process.pid):
        return True
    while stat is not None and stat.pid > 1:
        token = seen.tokens.get(stat.pid, "")
        if stat.session in others or token not in ("", attempt.token):
            return True
        stat = seen.processes.get(stat.ppid)
    return False


def _another_users(pid: int) -> bool:
    """What a task starts with sudo is root's."""
    try:
        return os.stat(f"/proc/{pid}").st_uid not in (os.geteuid(), 0)
    except OSError:
        return False
