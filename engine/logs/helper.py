"""The engine's end of the helper process that reads logs: its pipes, what it is busy with, its end. One that does not
answer is killed, and another one started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from .follow import FILES
from .follow_main import GUARD, PROTOCOL

_MODULE = "gpudeck.engine.logs.follow_main"
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _shared() -> int:
    """A file without a name, in memory where the kernel and Python can. Raises OSError."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.memfd_create("gpudeck-place", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class LogHelper:
    """One process. It stays in this process's session, and dies with this process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[dict[str, Any]], None], store: str) -> None:
        """Starts it. *answer* is told each of its answers, on the loop's thread. *store*: the file in which it keeps
        what it has seen. Raises OSError."""
        self._loop = loop
        self._answer = answer
        self._out = b""
        self._rest = b""
        self.gone = False
        """It is dead, or says nothing that can be understood."""
        fd = _shared()
        try:
            os.ftruncate(fd, GUARD.size)
            self._guard = mmap.mmap(fd, GUARD.size)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(fd), store],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(fd,),
                cwd="/",
            )
        finally:
            os.close(fd)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in_fd, self._out_fd = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in_fd, False)
        os.set_blocking(self._out_fd, False)
        loop.add_reader(self._out_fd, self._read)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, *requests: dict[str, Any]) -> None:
        """Send as much as the pipe takes; the rest goes with the next call."""
        self._out += b"".join(json.dumps(request).encode() + b"\n" for request in requests)
        with contextlib.suppress(OSError):  # full, or it is dead: silence tells
            self._out = self._out[os.write(self._in_fd, self._out) :]

    def place(self) -> tuple[int, int]:
        """The attempt that it is busy with, and with what of it; (0, 0): nothing."""
        return GUARD.unpack_from(self._guard, 0)

    def activity(self) -> tuple[float, bool]:
        """Processor time that it has used, in seconds, and whether it wants more; (0.0, False) when that cannot be
        read."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) * _TICK_S, fields[0] == b"R"
        except (OSError, ValueError, IndexError):
            return 0.0, False

    def wait(self, over: Callable[[], bool], timeout_s: float) -> None:
        """Take answers, blocking, until *over* or for so long."""
        deadline = time.monotonic() + timeout_s
        while not over() and not self.gone and (left := deadline - time.monotonic()) > 0:
            self.send()
            if self._has_answer(min(left, 0.1)):
                self._read()

    def poll(self) -> None:
        """Take what it has answered and nobody has read."""
        if not self.gone and self._has_answer(0.0):
            self._read()

    def end(self) -> None:
        """Kill it. Does not wait for what hangs in the kernel."""
        self._loop.remove_reader(self._out_fd)
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.05)
        self._guard.close()

    def _has_answer(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._out_fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _read(self) -> None:
        try:
            raw = os.read(self._out_fd, 1 << 20)
        except BlockingIOError:
            return
        except OSError:
            raw = b""
        if not raw:
            self.gone = True
            self._loop.remove_reader(self._out_fd)
            return
        *lines, self._rest = (self._rest + raw).split(b"\n")
        try:
            answers = [json.loads(line) for line in lines]
        except ValueError:
            self.gone = True
            return
        for answer in answers:
            self._answer(answer)


Request = dict[str, Any]

ANSWER_S = 2.0
"""A helper that takes longer is killed."""
START_S = 30.0
"""Time for its interpreter to start, on a box that is busy or has its Python on a file server."""
STILLBORN = 3
"""After so many helpers in a row that do not even start no more are tried."""
STARVED_S = 15.0
"""One that only waits for a processor may take so long."""
HUNG_CPU_S = 1.0
"""One that has computed for so long does not wait for a processor: it hangs."""
BLAMED_CPU_S = 0.5
"""A pattern is to blame for a helper that does not answer only if that has computed for so long meanwhile."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Before another helper is started; doubles while none answers."""


class Supervisor:
    """Asks a helper and watches that it answers. On the loop's thread; `check` is to be called about once a second."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        store: str,
        *,
        answer: Callable[[dict[str, Any]], None],
        anew: Callable[[], Sequence[Request]],
        blame: Callable[[int, int, bool], None],
        useless: Callable[[str], None],
    ) -> None:
        """*now*: seconds of a clock that only goes forward. *store*: see `LogHelper`. *answer* is told each answer.
        *anew*: what a new helper has to know. *blame* is told what a helper that hung was busy with, and whether that
        was a pattern. *useless*: no helper will ever answer, and why."""
        self._loop = loop
        self._now = now
        self._store = store
        self._answer = answer
        self._anew = anew
        self._blame = blame
        self._useless = useless
        self._helper: LogHelper | None = None
        self._greeted = False
        self._asked_at: float | None = None
        """When it was asked what it has not answered yet."""
        self._used_s: float | None = None
        """Processor time that it had used soon after; None: not looked at yet."""
        self._stillborn = 0
        """Helpers in a row that ended before they said anything."""
        self._start_at = 0.0
        self._wait_s = FIRST_WAIT_S

    @property
    def pid(self) -> int:
        """0: there is none."""
        return 0 if self._helper is None else self._helper.pid

    @property
    def patience_s(self) -> float:
        """How long an answer may take."""
        return ANSWER_S if self._greeted else START_S

    def send(self, *requests: Request) -> bool:
        """Tell the helper, starting one if there is none. False: there is none now; a later one is told by *anew*."""
        if self._helper is None:
            self._start()
            return False
        self._helper.send(*requests)
        return True

    def look(self) -> None:
        """Ask for what is new, unless that is still being answered."""
        if self._helper is None:
            self._start()
        elif self._asked_at is None:
            self._helper.send({"do": "look"})
            self._asked_at, self._used_s = self._now(), None
        else:
            self._helper.send()

    def check(self) -> None:
        """Kill a helper that hangs."""
        helper = self._helper
        if helper is None or (self._asked_at is None and not helper.gone):
            return
        if self._waited_s() > self.patience_s:
            helper.poll()  # it may have answered while this process did something else
            if self._helper is not helper:
                return
        used_s, wants_more = helper.activity()
        if self._used_s is None:
            self._used_s = used_s
        used_s -= self._used_s
        starved = wants_more and used_s < HUNG_CPU_S and self._waited_s() < STARVED_S
        overdue = self._waited_s() > self.patience_s and not starved
        if not overdue and not helper.gone:
            return
        if not self._greeted:
            self._stillborn += 1
            if self._stillborn == STILLBORN:
                self._give_up("its helper process does not start")
                return
        attempt, what = helper.place()
        self.end()
        self._start_at = self._now() + self._wait_s
        self._wait_s = min(LONGEST_WAIT_S, self._wait_s * 2)
        if overdue and attempt:
            self._blame(attempt, what, used_s >= BLAMED_CPU_S and what != FILES)

    def _waited_s(self) -> float:
        return 0.0 if self._asked_at is None else self._now() - self._asked_at

    def wait(self, over: Callable[[], bool]) -> None:
        """Take answers, blocking for as long as one may take, until *over*."""
        if self._helper is not None:
            self._helper.wait(over, ANSWER_S if self._greeted else STARVED_S)

    def end(self) -> None:
        """End the helper."""
        if self._helper is not None:
            self._helper.end()
        self._helper, self._asked_at = None, None

    def _start(self) -> None:
        if self._now() < self._start_at:
            return
        try:
            self._helper = LogHelper(self._loop, self._answered, self._store)
        except OSError as error:
            self._give_up(f"no process can be started for it ({error.strerror or error})")
            return
        self._greeted = False
        self._asked_at = self._now()
        self._helper.send(*self._anew())

    def _answered(self, answer: dict[str, Any]) -> None:
        if "hello" in answer:
            self._greeted, self._asked_at, self._stillborn = True, None, 0
            if answer["hello"] != PROTOCOL:
                self._give_up("gpudeck was replaced by another version; start the engine anew")
                return
        elif "final" not in answer and "judge" not in answer:
            self._asked_at, self._wait_s = None, FIRST_WAIT_S
        self._answer(answer)

    def _give_up(self, why: str) -> None:
        self.end()
        self._useless(why)
