"""Who belongs to an attempt: its session and group, all descendants, orphans, carriers of its token."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ...core.spec import Leftovers
from ..watch import Watch
from . import proc
from .proc import Stat
from .stopping import Stopping

_DOUBT_S = 0.05
_READS = 3
_EXEC_S = 0.002
_KTHREADD = 2


@dataclass(eq=False, slots=True)
class Attempt:
    """One attempt while anything of it lives."""

    token: str
    record: str
    """Path of its record file."""
    pid: int
    """The wrapper, whose pid is also the number of its group and session."""
    start_ticks: int
    """Of a wrapper that was gone before it was seen: no member started earlier."""
    leftovers: Leftovers
    child: bool
    """We are the wrapper's parent."""
    own: bool
    """Our child, and so are its orphans; False: adopted from an earlier engine, or we are no subreaper."""
    started_s: float = 0.0
    """CLOCK_BOOTTIME; 0: not known."""
    cwd: str = ""
    stdout: str = ""
    stderr: str = ""
    wrapper: Watch | None = None
    """Set as long as the wrapper is known to exist: its pid means nobody else."""
    command: tuple[int, int] | None = None
    """Pid and start of the wrapper's child; not known at once."""
    guessed: int | None = None
    """The wrapper was killed before its child was known, by this signal (negative): `command` probably was it."""
    reaped: list[tuple[int, int, int | None]] = field(default_factory=list[tuple[int, int, int | None]])
    """Start, pid and exit code (negative: signal) of orphans that died with the wrapper: one may be the command."""
    leader_ended: bool = False
    survivor: Watch | None = None
    """Adopted, leader ended: one of what still lives."""
    stop: Stopping | None = None
    relayed: bool = False
    """It runs on another node: its leader hands signals on, and what else is here must not get them."""
    strays: dict[int, int] = field(default_factory=dict[int, int])
    """Adopted: members seen by scans, pid and start, that descent alone would lose."""

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.start_ticks


@dataclass(frozen=True, slots=True)
class Members:
    """The live members of an attempt."""

    signalled: dict[int, Stat]
    """Those that a stop may reach, parents before children."""
    protected: dict[int, Stat]
    """Terminals of the user and what keeps them: never signalled."""


def split(processes: Mapping[int, Stat], session: int) -> Members:
    """Set apart what must not be signalled (parents come before children in *processes*).

    Outside the attempt's own session: a process with a controlling terminal (a shell in tmux), its ancestors (the tmux
    server) and everything below those.
    """
    protected: set[int] = set()
    for process in processes.values():
        at: Stat | None = process if process.terminal and process.live else None
        while at is not None and at.session != session and at.pid not in protected:
            protected.add(at.pid)
            at = processes.get(at.ppid)
    for process in processes.values():
        if process.ppid in protected:
            protected.add(process.pid)
    live = {pid: process for pid, process in processes.items() if process.live}
    return Members(
        {pid: process for pid, process in live.items() if pid not in protected},
        {pid: process for pid, process in live.items() if pid in protected},
    )


def walk(roots: Collection[int], *, children_files: bool) -> dict[int, Stat]:
    """*roots* and all their descendants, parents before children."""
    return proc.descend(roots) if children_files else proc.descend_in(proc.everyone(), roots)


@dataclass(frozen=True, slots=True)
class Picture:
    """All processes of the box at one moment, and the tokens that those carry which are young enough."""

    processes: dict[int, Stat]
    tokens: dict[int, str]


def picture(oldest_ticks: int) -> Picture:
    """Read all of /proc, and the environment of what started since *oldest_ticks*. May hang: for helper threads."""
    processes = proc.everyone()
    me = os.getpid()
    users = (p for p in processes.values() if p.live and p.pid != me and _KTHREADD not in (p.pid, p.ppid))
    young = (process.pid for process in users if process.start_ticks >= oldest_ticks)
    tokens = {pid: token for pid in young if (token := token_of(pid))}
    return Picture(processes, tokens)


@dataclass(frozen=True, slots=True)
class Traces:
    """What the members of an adopted attempt are known by."""

    token: str
    pid: int
    start_ticks: int
    strays: dict[int, int]

    @classmethod
    def of(cls, attempt: Attempt) -> Traces:
        return cls(attempt.token, attempt.pid, attempt.start_ticks, dict(attempt.strays))

    def search(self) -> dict[int, Stat]:
        """The members and whatever descends from them. May hang: for helper threads.

        That nobody is there is believed only the second time: while /proc is read, a process can fork and be gone, and
        its child not be listed yet.
        """
        found = self.found_in(picture(self.start_ticks))
        if not any(process.live for process in found.values()):
            time.sleep(_DOUBT_S)
            found = self.found_in(picture(self.start_ticks))
        return found

    def found_in(self, picture: Picture) -> dict[int, Stat]:
        """Those that a picture shows."""
        roots = [process.pid for process in picture.processes.values() if self._belongs(process, picture)]
        found = proc.descend_in(picture.processes, roots)
        found.pop(os.getpid(), None)
        return found

    def _belongs(self, process: Stat, picture: Picture) -> bool:
        if picture.tokens.get(process.pid) == self.token:
            return True
        if self.strays.get(process.pid) == process.start_ticks:
            return True
        if self.pid not in (process.session, process.group) or process.start_ticks < self.start_ticks:
            return False
        # A session's number is not given away while it has members; a leader of another age means a later session.
        leader = picture.processes.get(self.pid)
        return leader is None or leader.start_ticks <= self.start_ticks + proc.doubt_ticks()


def token_of(pid: int) -> str:
    """GPUDECK_TOKEN in the environment of *pid*, "" where there is none or it cannot be read. May hang.

    In the middle of an exec a process has no environment for a moment.
    """
    for _ in range(_READS):
        environ = proc.environ(pid)
        if environ is None:
            return ""
        if environ:
            return proc.token_in(environ)
        time.sleep(_EXEC_S)
    return ""
