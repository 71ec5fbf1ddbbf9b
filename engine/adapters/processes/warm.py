"""Shells that are started ahead, so that a free slot is refilled about a millisecond sooner.

Such a shell knows nothing of an attempt and has made nothing. It waits at a pipe for one compound command that tells
it of one, and for another that lets it begin: cut off or missing, either runs nothing. Only the engine has the other
end of the pipe, so that its death ends the shell.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...ports import SpawnRefusedError, StartOrder
from ..claims.claims import Blank
from ..claims.held import WRAPPER_FD
from ..watch import Watcher
from . import proc
from .wrapper import Spawner, arguments_of

MOST = 8
"""Shells that wait at once. More slots than that are hardly refilled in one moment."""
QUIET_S = 0.005
"""Shells are started when nothing else was for so long: ahead of starts that come thick and fast they only delay."""
_LOOK_S = 2.0
_BARRED_S = 10.0
_MOST_DEATHS = 3
"""Shells that die of themselves are of no use on this box."""
_LARGEST = 32768
"""Bytes of a script: half of what a pipe takes at once."""
_BEGIN = b"{ shift; }\n"
"""Takes away the empty argument with which no wrapper begins."""
_CLOSE_S = 1.0

_OF_ATTEMPTS = ("GPUDECK_", "CUDA_VISIBLE_DEVICES")
"""Beginnings of names that no shell has before its attempt is known: tokens tell whose a process is."""
_SHELLS_OWN = re.compile(
    r"_|BASH\w*|COLUMNS|COMP_\w+|DIRSTACK|ENV|E?UID|FUNCNAME|GROUPS|HIST\w+|HOST(NAME|TYPE)|IFS|LINENO|LINES|MACHTYPE|MAIL\w*"
    r"|OLDPWD|OPT(ARG|ERR|IND)|OSTYPE|PIPESTATUS|POSIXLY_CORRECT|PPID|PS\d|PWD|S?RANDOM|SECONDS|SHELL\w*|SHLVL|TMOUT"
)
"""What shells set or act upon themselves: got later it may do something else than found at the start."""


@dataclass(frozen=True, slots=True)
class Shell:
    """One that waits."""

    pid: int
    start_ticks: int
    pipe: int
    """The end that it is told at."""
    env: Mapping[str, str]
    """What it was started with."""
    blank: Blank | None
    """It has this description of the file of claims, without a lock so far, as its number 9."""


class WarmShells:
    """The shells that wait. All methods on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        spawner: Spawner,
        watcher: Watcher,
        *,
        wanted: Callable[[], int],
        start_of: Callable[[int, int, int], int],
        blank: Callable[[], Blank | None],
    ) -> None:
        """*wanted*: how many could be of use now. *start_of* tells the start of a process made between two ticks.
        *blank* makes a description of the file of claims, where GPUs are claimed."""
        self._loop = loop
        self._spawner = spawner
        self._watcher = watcher
        self._wanted = wanted
        self._start_of = start_of
        self._blank = blank
        self._order: StartOrder | None = None
        self._used_s = 0.0
        self._barred_until_s = 0.0
        self._deaths = 0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[Shell] = []
        self._told: dict[str, Shell | None] = {}
        """By token of an attempt that is about to begin; None: no shell can be told of it."""
        self.pids: set[int] = set()
        """Of all that are not reaped: no attempt's processes."""

    def __len__(self) -> int:
        return len(self._waiting)

    def prepare(self, order: StartOrder, record: str) -> None:
        """Tell a shell of an attempt, if there is one that can be told. It gets ready and begins nothing."""
        self._told[order.token] = None
        if not self._waiting or (order.claims and order.leftovers == "wait"):
            return  # a shell's claim is closed here when it begins: nobody could take it back from the command
        shell = self._waiting[0]
        arguments, env = arguments_of(order, record)
        script = script_of(shell, arguments, env, claims=bool(order.claims))
        if not script:
            return
        self._waiting.remove(shell)
        if _write(shell, script):
            self._told[order.token] = shell
        else:
            self._deaths += 1
            self.drop(shell)

    def told(self, order: StartOrder, record: str) -> Shell | None:
        """The shell that knows of this attempt, and of which nobody else knows from now on; None: one has to be started
        for it. `begin` or `drop` follows."""
        if order.token not in self._told:
            self.prepare(order, record)
        return self._told.pop(order.token)

    def begin(self, shell: Shell) -> bool:
        """Make it the wrapper of its attempt. False: it is dead, or as good as; nothing has been run."""
        if not _write(shell, _BEGIN):
            self._deaths += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(shell.pid, signal.SIGKILL)  # it has the claim
            self.drop(shell)
            return False
        self.pids.discard(shell.pid)
        _close(shell)
        return True

    def forget(self, token: str) -> None:
        """The attempt will not begin."""
        shell = self._told.pop(token, None)
        if shell is not None:
            self.drop(shell)

    def started(self, order: StartOrder) -> None:
        """An attempt was started: some time after the last one shells are started ahead for the next ones."""
        self._order = order
        self._used_s = self._loop.time()
        if self._timer is None or self._timer.when() > self._used_s + QUIET_S:
            self._look_in(QUIET_S)

    def add(self, order: StartOrder) -> None:
        """Start one ahead, for attempts with about the environment of this one, if there is room for it."""
        blank: Blank | None = None
        try:
            _, env = arguments_of(order, "")
            blank = self._blank()
            self._waiting.append(self._start(_plain(env), blank))
        except (OSError, ValueError, SpawnRefusedError):
            if blank is not None:
                os.close(blank.fd)
            self.refused()

    def refused(self) -> None:
        """Processes or descriptors are short: those that only wait let go of theirs."""
        self._barred_until_s = self._loop.time() + _BARRED_S
        self._shrink(0)

    def close(self) -> None:
        """End them all, and see them end."""
        if self._timer is not None:
            self._timer.cancel()
        for shell in (*self._waiting, *filter(None, self._told.values())):
            _close(shell)
        self._waiting.clear()
        self._told.clear()
        deadline_s = time.monotonic() + _CLOSE_S
        for pid in self.pids:
            while not (ended := _reaped(pid)) and time.monotonic() < deadline_s:
                time.sleep(0.0005)
            if not ended:
                os.kill(pid, signal.SIGKILL)  # somebody has stopped it
                os.waitpid(pid, 0)
        self.pids.clear()

    def _look(self) -> None:
        """Start one more, or let some go."""
        self._timer = None
        now = self._loop.time()
        quiet_s = now - self._used_s
        if quiet_s < QUIET_S:
            self._look_in(QUIET_S - quiet_s)
            return
        self._bury()
        wanted = 0 if self._deaths >= _MOST_DEATHS else min(self._wanted(), MOST)
        self._shrink(wanted)
        missing = len(self._waiting) < wanted and now >= self._barred_until_s
        if missing and self._order is not None:
            self.add(self._order)
            self._look_in(0)
        elif self._waiting:
            self._look_in(_LOOK_S)

    def _look_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._look)

    def _bury(self) -> None:
        """Those that died while they waited."""
        for shell in [shell for shell in self._waiting if _reaped(shell.pid)]:
            self._deaths += 1
            self._waiting.remove(shell)
            self.pids.discard(shell.pid)
            _close(shell)

    def _shrink(self, count: int) -> None:
        while len(self._waiting) > count:
            self.drop(self._waiting.pop())

    def drop(self, shell: Shell) -> None:
        """Let go of one that is of no use any more, and does not wait."""
        _close(shell)
        self._watcher.watch_child(shell.pid, shell.start_ticks, lambda: self._reap(shell.pid))

    def _reap(self, pid: int) -> None:
        _reaped(pid)
        self.pids.discard(pid)

    def _start(self, env: Mapping[str, str], blank: Blank | None) -> Shell:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(write_end, False)
            before = proc.boot_tick()
            pid = self._spawner.spawn_ahead(env, read_end, None if blank is None else blank.fd)
        except (OSError, ValueError, SpawnRefusedError):
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        self.pids.add(pid)
        return Shell(pid, self._start_of(pid, before, proc.boot_tick()), write_end, env, blank)


def script_of(shell: Shell, arguments: Sequence[str], env: Mapping[str, str], *, claims: bool) -> bytes:
    """What tells *shell* of these arguments and this environment; b"" where that cannot be said."""
    new = {name: value for name, value in env.items() if shell.env.get(name) != value}
    gone = shell.env.keys() - env.keys()
    if any(_SHELLS_OWN.fullmatch(name) for name in (*new, *gone)):
        return b""
    parts = ["{ "]
    if shell.blank is not None and not claims:
        parts.append(f"exec {WRAPPER_FD}<&-; ")
    if new:
        parts.append("export " + " ".join(f"{name}={_quoted(value)}" for name, value in new.items()) + "; ")
    if gone:
        parts.append("unset " + " ".join(gone) + "; ")
    parts.append("set -- '' " + " ".join(map(_quoted, arguments)) + "; }\n")
    try:
        script = os.fsencode("".join(parts))
    except UnicodeEncodeError:
        return b""
    return script if len(script) <= _LARGEST and b"\0" not in script else b""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _plain(env: Mapping[str, str]) -> dict[str, str]:
    """What attempts have in common."""
    return {name: value for name, value in env.items() if not name.startswith(_OF_ATTEMPTS)}


def _reaped(pid: int) -> bool:
    """Whether a child has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _write(shell: Shell, script: bytes) -> bool:
    try:
        return os.write(shell.pipe, script) == len(script)
    except OSError:
        return False


def _close(shell: Shell) -> None:
    os.close(shell.pipe)
    if shell.blank is not None:
        os.close(shell.blank.fd)
