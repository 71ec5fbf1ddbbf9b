"""Orphans of our attempts. As their subreaper we become their parent: we find them, say whose they are, reap them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..background import Background
from ..watch import Watch, Watcher
from . import proc
from .family import Attempt, token_of
from .proc import Stat


@dataclass(eq=False, slots=True)
class Orphan:
    """A live child of ours that one of our attempts left; all that descends from it belongs to it."""

    pid: int
    start_ticks: int
    session: int
    token: str | None
    """Whose it is; "": nobody's any more; None: being found out."""
    watch: Watch | None = None


class Owner(Protocol):
    """What the launcher does with the news."""

    def orphan_died(self, token: str, pid: int, start_ticks: int, exit_code: int | None) -> None:
        """One of an attempt's orphans died. *exit_code* is negative for a signal, None when somebody else reaped it."""
        ...

    def orphans_settled(self) -> None:
        """It is known now whose the last unclear orphans are."""
        ...


class Orphans:
    """All orphans that are our children."""

    def __init__(
        self,
        attempts: Mapping[str, Attempt],
        owner: Owner,
        watcher: Watcher,
        background: Background,
        *,
        children_files: bool,
    ) -> None:
        self._attempts = attempts
        self._owner = owner
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

    def sweep(self) -> None:
        """Look at our children: take in new orphans, reap dead ones."""
        for pid in self._children():
            if pid not in self._wrappers and pid not in self._orphans:
                process = proc.stat(pid)
                # What shares our session is a helper that some other part of the engine started and reaps.
                if process is not None and process.session != self._session and process.ppid == os.getpid():
                    self._take_in(process)

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
                self._owner.orphan_died(token, process.pid, process.start_ticks, exit_code)
            return
        orphan = Orphan(process.pid, process.start_ticks, process.session, token or None)
        self._orphans[process.pid] = orphan
        orphan.watch = self._watcher.watch_child(process.pid, process.start_ticks, lambda: self._ended(orphan))
        if not token:
            pid = process.pid
            self._background.submit(lambda: token_of(pid), lambda found: self._told(orphan, found))

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
            self._owner.orphans_settled()

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
        self._owner.orphan_died(orphan.token or "", orphan.pid, orphan.start_ticks, exit_code)


def reap(pid: int) -> int | None:
    """The exit code of a dead child (negative: a signal); None when it lives or was reaped by somebody else."""
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if done else None
