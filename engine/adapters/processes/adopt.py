"""What became of the attempts of an earlier engine.

The record file is the identity: who could make it exclusively decides whether an attempt ran at all. Tokens in
environments only help to find processes, since programs erase them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ...core.events import Fate, Unproven
from ...core.gpu_names import is_simulated
from ...core.inputs import LeaderExited, Spawned, TreeGone
from ...core.readings import GpuReading, Process
from ...ports import Known, Sink
from ..allocation import node_of
from ..background import within
from ..host import boottime_s
from . import proc, record
from .attempts import Attempts
from .members import Attempt, Picture, found_in, picture
from .record import Record

_PICTURE_TIMEOUT_S = 5.0
_BIRTH_S = 1.0
_BIRTH_LOOK_S = 0.02
_DRAINING_S = 3.0
"""The driver lists what was killed, and counts its memory, for a moment longer."""
_AGAIN_S = 0.2
_UNLISTED_MIB = 1024
"""Memory that no listed process has. Less than this the driver uses by itself."""

Look = Callable[[Sequence[str]], tuple[GpuReading, ...]]
"""One reading of GPUs, by UUID; () when the driver gives none in time. May take seconds."""


@dataclass(slots=True)
class Recovery:
    """Finds attempts again; hands those that live, or may have left something alive, to `Attempts`."""

    attempts: Attempts
    loop: asyncio.AbstractEventLoop
    sink: Sink
    same_boot: bool
    same_namespace: bool
    own_orphans: bool
    """This process is a subreaper."""
    look: Look
    _picture: Picture | None = field(default=None, init=False)
    _gpus_free_by_s: float | None = field(default=None, init=False)
    """The attempts that are judged share the time that dead processes get to leave their GPUs."""
    _leaders: dict[int, str] = field(default_factory=dict[int, str], init=False)
    """Tokens of the attempts that are judged, by the pids of their wrappers."""

    def begin(self, attempts: Sequence[Known]) -> None:
        """Forget what was seen for an earlier call. *attempts* are about to be judged."""
        self._picture = None
        self._leaders = {known.pid: known.token for known in attempts if known.pid}
        self._gpus_free_by_s = None

    def recover(self, known: Known, path: str) -> Fate:
        """What `ports.Launcher.recover` returns for one attempt. What the sink gets comes in later turns."""
        if not self.same_boot:
            return self._other_boot(known, path)
        if not self.same_namespace:
            return self._elsewhere(known, path)
        deadline_s = time.monotonic() + _BIRTH_S
        while (fate := self._judge(known, path)) is None:
            if time.monotonic() > deadline_s:
                return Unproven()
            time.sleep(_BIRTH_LOOK_S)
            self._picture = None
        return fate

    def _elsewhere(self, known: Known, path: str) -> Fate:
        """The last engine ran in another pid namespace. Absence proves nothing here; its token on its pid does."""
        written = record.read(path)
        living = written.living()
        if written.end or living is None:
            return self._tell_end(known.token, written) or Unproven()
        if proc.token_in(proc.environ(living.pid) or b"") != known.token:
            return Unproven()
        return self._adopt(_attempt(known, path, living.pid, living.start_ticks), known)

    def _other_boot(self, known: Known, path: str) -> Fate:
        """All dead. A record may have been lost with the power, so a missing one does not prove that nothing ran."""
        if ended := self._tell_end(known.token, record.read(path)):
            return ended
        self._tell(LeaderExited(known.token, None, boottime_s()), TreeGone(known.token, boottime_s()))
        return "lost"

    def _tell_end(self, token: str, written: Record) -> Fate | None:
        """Another boot or namespace: its tree went with it. None where no end was written."""
        if not written.end:
            return None
        if written.never_ran:
            return self._never_ran(token)
        now = boottime_s()
        code = int(written.end) if written.end.isdigit() else 125
        self._tell(LeaderExited(token, code, min(written.end_uptime_s, now)), TreeGone(token, now))
        return "ended"

    def _judge(self, known: Known, path: str) -> Fate | None:
        """None: it is being born."""
        try:
            claimed = record.claim(path)
        except OSError:
            return Unproven()
        written = record.read(path)
        if claimed and known.pid and proc.is_live(known.pid, known.start_ticks):
            return self._claimed_alive(known, path)
        if claimed and known.pid:
            return self._dead(_attempt(known, path, known.pid, known.start_ticks), known)
        if claimed or written.never_ran:
            return self._never_ran(known.token)
        if not written.pid:
            return self._torn(known, path)
        living = written.living()
        if living is not None and not written.end:
            return self._adopt(_attempt(known, path, living.pid, living.start_ticks), known)
        attempt = _attempt(known, path, written.pid, _earliest_start(known, written))
        return self._adopt_dead(attempt, "ended") if written.end else self._dead(attempt, known)

    def _never_ran(self, token: str) -> Fate:
        self._tell(TreeGone(token, boottime_s(), never_ran=True))
        return "never ran"

    def _claimed_alive(self, known: Known, path: str) -> Fate:
        """Its record was missing: a wrapper that comes too late ends by itself; else somebody removed the file."""
        deadline_s = time.monotonic() + _BIRTH_S
        while time.monotonic() < deadline_s:
            if not proc.is_live(known.pid, known.start_ticks):
                return self._never_ran(known.token)
            time.sleep(_BIRTH_LOOK_S)
        return self._adopt(_attempt(known, path, known.pid, known.start_ticks), known)

    def _torn(self, known: Known, path: str) -> Fate | None:
        """Nothing ran yet. Unless its wrapper is about to finish the line, or just did, nothing will."""
        self._picture = None
        seen = self._look_at_all()
        if seen is None:
            return Unproven()
        lives = known.pid and proc.is_live(known.pid, known.start_ticks)
        if lives or known.token in seen.tokens.values() or record.read(path).pid:
            return None
        return self._never_ran(known.token)

    def _claim_kinship(self, attempt: Attempt) -> None:
        """An attempt that this very process started, through an earlier launcher, is still its child."""
        process = proc.stat(attempt.pid)
        identity = attempt.start_ticks, os.getpid()
        attempt.child = process is not None and (process.start_ticks, process.ppid) == identity
        attempt.own = attempt.child and self.own_orphans and not attempt.container

    def _adopt(self, attempt: Attempt, known: Known) -> Fate:
        self._claim_kinship(attempt)
        self.attempts.follow(attempt)
        if not known.pid:  # its engine was gone before it could write down what it had started
            self._tell(Spawned(attempt.token, attempt.pid, attempt.start_ticks, os.stat("/proc/self/ns/pid").st_ino))
        return "adopted"

    def _adopt_dead(self, attempt: Attempt, fate: Fate) -> Fate:
        """Its wrapper is gone or about to be; what it left is looked for in the background."""
        self._claim_kinship(attempt)
        self.attempts.follow_dead(attempt)
        return fate

    def _dead(self, attempt: Attempt, known: Known) -> Fate:
        """No wrapper and no end line: lost only if nothing of it is found, and its GPUs say nothing else."""
        seen = None
        for _ in range(2):  # one look can miss a process that forks; two do not
            seen = self._look_at_all()
            if record.read(attempt.record).end:
                return self._adopt_dead(attempt, "ended")
            if seen is None:
                return Unproven()
            if any(process.live for process in found_in(seen, attempt).values()):
                return self._adopt_dead(attempt, "adopted")
            self._picture = None
        if seen is not None and (why := self._on_its_gpus(attempt, known, seen)):
            return Unproven(why)
        if attempt.container:  # its program has the last word
            return self._adopt_dead(attempt, "adopted")
        now = boottime_s()
        self._tell(LeaderExited(attempt.token, None, now), TreeGone(attempt.token, now))
        return "lost"

    def _on_its_gpus(self, attempt: Attempt, known: Known, seen: Picture) -> str:
        """Why *attempt* may live although no process of it is found; "" when nothing on its GPUs says so.

        A program can erase its environment, leave its session and lose its parents. Then only the driver knows of it.
        It is asked once nothing else speaks against it that the attempt is gone.
        """
        gpus = [uuid for uuid in known.claims if not is_simulated(uuid)]
        if not gpus:
            return ""
        others = {pid for pid, token in self._leaders.items() if token != attempt.token}
        if self._gpus_free_by_s is None:
            self._gpus_free_by_s = time.monotonic() + _DRAINING_S
        while why := _speaks_for(attempt, self.look(gpus), len(gpus), others, seen):
            if time.monotonic() > self._gpus_free_by_s:
                return why
            time.sleep(_AGAIN_S)
        return ""

    def _look_at_all(self) -> Picture | None:
        """All processes and their tokens; None when one of them hangs. In a thread, since that may last for ever."""
        if self._picture is None:
            with contextlib.suppress(TimeoutError):
                self._picture = within(_PICTURE_TIMEOUT_S, lambda: picture(0))
        return self._picture

    def _tell(self, *inputs: LeaderExited | TreeGone | Spawned) -> None:
        for item in inputs:
            self.loop.call_soon(self.sink, item)


def _attempt(known: Known, path: str, pid: int, start_ticks: int) -> Attempt:
    relayed = any(map(node_of, known.claims))
    return Attempt(
        known.token, path, pid, start_ticks, known.leftovers, child=False, own=False, relayed=relayed,
        container=known.container,
    )  # fmt: skip


def _earliest_start(known: Known, wrapper: Record) -> int:
    """Of the members of an attempt whose wrapper is gone: the journal knows when that started, or its record does."""
    return known.start_ticks if known.pid == wrapper.pid else proc.earliest_tick(wrapper.uptime_s)


def _speaks_for(
    attempt: Attempt, readings: Sequence[GpuReading], gpus: int, others: Collection[int], seen: Picture
) -> str:
    """Why *attempt* may live, as what sits on its *gpus* GPUs and is explained by nothing tells.

    *others*: session leaders of other attempts. *seen*: the processes of the box, a moment ago.
    """
    if len(readings) < gpus:
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
