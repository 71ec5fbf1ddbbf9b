"""What the queue says of all our jobs, by one call for all of them, and never more often than a cluster can bear."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from .calls import Answer, Calls, run_program
from .parse import QueuedJob, squeue_jobs

SHORTEST_S, LONGEST_S = 2.0, 60.0
_SHARE = 5.0
"""So many times what a call took lie between it and the next."""
_TIMEOUT_S = 60.0
_CALL = re.compile(r"^(?:squeue: )?(?:error: )?(?:slurm_\w+(?: error)?: )?")
"""What stands before Slurm's words."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The queue at one moment."""

    asked_at: float
    """CLOCK_BOOTTIME: what was submitted before is in it."""
    changed: tuple[QueuedJob, ...]
    """Those that are new, or not as they were in the picture before."""
    ids: frozenset[str]
    """Of all jobs listed."""


@dataclass(frozen=True, slots=True)
class _Look:
    answer: Answer
    lines: frozenset[str] = frozenset()
    changed: tuple[QueuedJob, ...] = ()
    ids: frozenset[str] = frozenset()


def _look(query: Sequence[str], environ: Mapping[str, str], before: frozenset[str]) -> _Look:
    """Ask, and read what is not as it was *before*: thousands of lines are compared in a millisecond, not read."""
    answer = run_program(query, environ, timeout_s=_TIMEOUT_S)
    if not answer.ok:
        return _Look(answer)
    lines = answer.out.splitlines()
    changed = squeue_jobs("\n".join([line for line in lines if line not in before]))
    ids = frozenset(line.partition("|")[0] for line in lines)
    return _Look(answer, frozenset(lines), tuple(changed), ids)


class QueuePoller:
    """Asks for as long as there is something to ask for. All calls on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        calls: Calls,
        *,
        query: tuple[str, ...],
        took: Callable[[Picture], bool],
        needed: Callable[[], bool],
        pressing: Callable[[], bool],
        note: Callable[[str, str], None],
        now: Callable[[], float],
    ) -> None:
        """*query*: the call, whose lines begin with a job's id and `|`. *took* gets each picture, and says whether
        anything has moved. *needed*: there are jobs of ours. *pressing*: something depends on the next picture."""
        self._loop = loop
        self._calls = calls
        self._query = query
        self._took = took
        self._needed = needed
        self._pressing = pressing
        self._note = note
        self._now = now
        self._lines = frozenset[str]()
        self._interval_s = SHORTEST_S
        self._free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._asked_at: float | None = None
        self._silent = False

    def soon(self) -> None:
        """Something has changed, or will: ask as early as one may."""
        self._interval_s = SHORTEST_S
        if self._asked_at is None:
            self._arm(self._free_at)

    def close(self) -> None:
        """Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            if self._due <= at:
                return
            self._timer.cancel()
        self._due = max(at, self._loop.time())
        self._timer = self._loop.call_at(self._due, self._ask)

    def _ask(self) -> None:
        self._timer = None
        if not self._needed():
            return
        self._asked_at = self._now()
        look = partial(_look, self._query, self._calls.environ, self._lines)
        self._calls.work(look, self._answered, timeout_s=_TIMEOUT_S)

    def _answered(self, look: _Look | None) -> None:
        answer = look.answer if look is not None else Answer(None, "", "it hangs", _TIMEOUT_S)
        asked_at, self._asked_at = self._asked_at, None
        pause_s = max(SHORTEST_S, _SHARE * answer.took_s)
        self._free_at = self._loop.time() + pause_s
        if look is not None and answer.ok and asked_at is not None:
            self._take(asked_at, look)
        elif not self._silent:
            self._silent = True
            self._note(f"Slurm does not answer ({_why(self._query[0], answer)}): what runs goes on", "warning")
        if self._pressing():
            self._interval_s = SHORTEST_S
        self._arm(self._loop.time() + max(self._interval_s, pause_s))
        self._interval_s = min(2 * self._interval_s, LONGEST_S)

    def _take(self, asked_at: float, look: _Look) -> None:
        if self._silent:
            self._silent = False
            self._note("Slurm answers again", "info")
        self._lines = look.lines
        if self._took(Picture(asked_at, look.changed, look.ids)):
            self._interval_s = SHORTEST_S


def _why(program: str, answer: Answer) -> str:
    lines = answer.err.strip().splitlines()
    return f"{program}: {_CALL.sub('', lines[-1]) if lines else f'exit code {answer.code}'}"
