"""Who belongs to an attempt: its session and group, all descendants, orphans, carriers of its token."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ...core.spec import Leftovers
from ..background import Background
from ..watch import Watch, Watcher
from . import proc
from .proc import Stat

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
    """Our child, and so are its orphans; False: adopted from an earlier engine, in a container, or we are no
    subreaper."""
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
    container: str = ""
    """The program whose container it runs in: its processes descend from nothing of ours, and the token in their
    environment finds them."""
    relayed: bool = False
    """It runs on another node: its leader hands signals on, and what else is here must not get them."""
    strays: dict[int, int] = field(default_factory=dict[int, int])
    """Adopted: members seen by scans, pid and start, that descent alone would lose. Replaced, never changed: helper
    threads read it."""

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


def inside(members: Mapping[int, Stat], *, leader: bool) -> list[Stat]:
    """Those that run in a container. Its init hands signals on to the command: with *leader* it is meant alone, else
    what is below it, so that nobody gets a signal twice. [] also where the container's processes cannot be known."""
    found = {pid: process for pid, process in members.items() if proc.in_namespace(pid)}
    tops = [process for process in found.values() if process.ppid not in found]
    below = [process for process in found.values() if process.ppid in found]
    return tops if leader else below or tops


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


def search(attempt: Attempt) -> dict[int, Stat]:
    """The members of an adopted attempt, and whatever descends from them. May hang: for helper threads.

    That nobody is there is believed only the second time: while /proc is read, a process can fork and be gone, and its
    child not be listed yet.
    """
    found = found_in(picture(attempt.start_ticks), attempt)
    if not any(process.live for process in found.values()):
        time.sleep(_DOUBT_S)
        found = found_in(picture(attempt.start_ticks), attempt)
    return found


def found_in(picture: Picture, attempt: Attempt) -> dict[int, Stat]:
    """The members that a picture shows."""
    roots = [process.pid for process in picture.processes.values() if _belongs(process, picture, attempt)]
    found = proc.descend_in(picture.processes, roots)
    found.pop(os.getpid(), None)
    if not attempt.container:
        return found
    # Its program leaves helpers that serve other containers, too, and end by themselves: a user namespace's keeper.
    return {pid: p for pid, p in found.items() if p.session == attempt.pid or proc.in_namespace(pid)}


def _belongs(process: Stat, picture: Picture, attempt: Attempt) -> bool:
    if picture.tokens.get(process.pid) == attempt.token:
        return True
    if attempt.strays.get(process.pid) == process.start_ticks:
        return True
    if attempt.pid not in (process.session, process.group) or process.start_ticks < attempt.start_ticks:
        return False
    # A session's number is not given away while it has members; a leader of another age means a later session.
    leader = picture.processes.get(attempt.pid)
    return leader is None or leader.start_ticks <= attempt.start_ticks + proc.doubt_ticks()


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


def _mark_of(pid: int) -> str:
    """The token of *pid*, or of the attempt whose container it keeps: conmon's only trace of that is its words."""
    words = b"" if (token := token_of(pid)) else proc.read(f"/proc/{pid}/cmdline") or b""
    return token or words.partition(b"\0-n\0gpudeck-")[2].partition(b"\0")[0].decode("utf-8", "replace")


@dataclass(eq=False, slots=True)
class Orphan:
    """A live child of ours that one of our attempts left; all that descends from it belongs to it."""

    pid: int
    start_ticks: int
    session: int
    token: str | None
    """Whose it is; "": nobody's any more; None: being found out."""
    watch: Watch | None = None


Died = Callable[[str, int, int, int | None], None]
"""Token, pid, start and exit code (negative: a signal; None: somebody else reaped it) of an orphan that died."""


class Orphans:
    """All orphans of our attempts. As their subreaper we become their parent: we find them, say whose they are, reap
    them."""

    def __init__(
        self,
        attempts: Mapping[str, Attempt],
        watcher: Watcher,
        background: Background,
        *,
        children_files: bool,
        died: Died,
        settled: Callable[[], None],
    ) -> None:
        """*died* is told of each that dies; *settled*, that it is known whose the last unclear ones are."""
        self._attempts = attempts
        self._died = died
        self._settled = settled
        self._watcher = watcher
        self._background = background
        self._children_files = children_files
        self._session = os.getsid(0)
        self._orphans: dict[int, Orphan] = {}
        self._wrappers: set[int] = set()
        self._sessions: dict[int, str] = {}
        self._seen: dict[int, tuple[int, str]] = {}
        self._last_ended = ""
        self._left: set[str] = set()

    @property
    def unclear(self) -> bool:
        """Whether some orphan's attempt is still being found out."""
        return any(orphan.token is None for orphan in self._orphans.values())

    def __bool__(self) -> bool:
        return bool(self._orphans)

    def add(self, attempt: Attempt) -> None:
        """A new attempt: its session is its own, and its wrapper, where that is our child, is no orphan."""
        self._sessions[attempt.pid] = attempt.token
        if attempt.child:
            self._wrappers.add(attempt.pid)

    def wrapper_reaped(self, attempt: Attempt) -> None:
        """Its pid may mean somebody else from now on, its session only once that is empty."""
        if attempt.child:
            self._wrappers.discard(attempt.pid)

    def leader_ended(self, attempt: Attempt) -> None:
        """Orphans that nothing else explains are taken for what the last leader left."""
        self._last_ended = attempt.token

    def release(self, token: str) -> None:
        """The attempt is over: what it left behind is nobody's, and is only reaped."""
        for orphan in self.of(token):
            orphan.token = ""
            self._left.add(token)
        self._sessions = {session: owner for session, owner in self._sessions.items() if owner != token}
        self._seen = {pid: seen for pid, seen in self._seen.items() if seen[1] != token}

    def of(self, token: str) -> list[Orphan]:
        """The live orphans of an attempt."""
        return [orphan for orphan in self._orphans.values() if orphan.token == token] if self._orphans else []

    def note(self, processes: Iterable[Stat], token: str) -> None:
        """These were seen in an attempt's tree: should they lose their parents, they are still its."""
        for process in processes:
            self._seen[process.pid] = process.start_ticks, token
            self._sessions.setdefault(process.session, token)

    def owner_of(self, process: Stat) -> str:
        """Whose a process is by what is known without reading its environment."""
        orphan = self._orphans.get(process.pid)
        if orphan is not None and orphan.start_ticks == process.start_ticks:
            return orphan.token or ""
        seen = self._seen.get(process.pid)
        if seen is not None and seen[0] == process.start_ticks:
            return seen[1]
        return self._sessions.get(process.session) or self._sessions.get(process.group) or ""

    def sweep(self) -> bool:
        """Look at our children: take in new orphans, reap dead ones. False: some were dead, and what these left may
        have become our child since the look."""
        settled = True
        for pid in self._children():
            if pid not in self._wrappers and pid not in self._orphans:
                process = proc.stat(pid)
                # What shares our session is a helper that some other part of the engine started and reaps.
                if process is not None and process.session != self._session and process.ppid == os.getpid():
                    self._take_in(process)
                    settled = settled and process.live
        return settled

    def close(self) -> None:
        """Let go of all."""
        self._orphans.clear()

    def _children(self) -> list[int]:
        if self._children_files:
            return proc.own_children()
        me = os.getpid()
        return [process.pid for process in proc.everyone().values() if process.ppid == me]

    def _take_in(self, process: Stat) -> None:
        token = self.owner_of(process)
        if not process.live:
            exit_code = reap(process.pid)
            if token:
                self._died(token, process.pid, process.start_ticks, exit_code)
            return
        orphan = Orphan(process.pid, process.start_ticks, process.session, token or None)
        self._orphans[process.pid] = orphan
        orphan.watch = self._watcher.watch(process.pid, process.start_ticks, lambda: self._ended(orphan), child=True)
        if not token:
            pid = process.pid
            self._background.submit(lambda: _mark_of(pid), lambda found: self._told(orphan, found))

    def _told(self, orphan: Orphan, token: str | None) -> None:
        """Its environment was read, or could not be."""
        if orphan.token is None:
            if token in self._attempts or token in self._left:
                orphan.token = token if token in self._attempts else ""
            else:
                orphan.token = self._by_elimination(orphan)
            if orphan.token:
                self._sessions.setdefault(orphan.session, orphan.token)
        if not self.unclear:
            self._settled()

    def _by_elimination(self, orphan: Orphan) -> str:
        """The attempt whose leader ended last, else the only one there is, unless the orphan is older."""
        if os.getpid() == 1:
            return ""  # as the init of a container we inherit anyone's
        old = [a.token for a in self._attempts.values() if a.own and a.start_ticks <= orphan.start_ticks]
        if self._last_ended in old:
            return self._last_ended
        return old[0] if len(old) == 1 else ""

    def _ended(self, orphan: Orphan) -> None:
        exit_code = reap(orphan.pid)
        del self._orphans[orphan.pid]
        self._died(orphan.token or "", orphan.pid, orphan.start_ticks, exit_code)


def reap(pid: int) -> int | None:
    """The exit code of a dead child (negative: a signal); None when it lives or was reaped by somebody else."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if done else None
