"""The engine that single commands go to: the one that lives, else a new one, which ends by itself when it is idle."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from typing import Any

from ..client.attach import attach, attach_or_start
from ..client.connection import Connection, Gone
from ..client.files import QUEUE, Home
from ..decks.options import decode
from ..errors import DeckError, EngineUnavailableError, TaskFileError, UsageError
from ..protocol.states import ACTIVE, ENDED
from ..protocol.wire import TaskRow
from ..taskfile.kinds import RUN_VARIABLE
from ..taskfile.options import RunOptions
from ..text import names_text, ranges
from .book import KEPT, Book
from .wanted import Wanted, boot_mark

TAKE_S = 60.0
MOST_LOST = 5
"""So many engines may be lost under one run before something is taken to be wrong."""
_SLACK = 10
_ENDING_S = 0.5
"""An engine that was about to end when it was asked is gone within this time."""
_TASK = re.compile(r'^[^\n]*?: task "([^"]*)"[^:]*: (.*)$', re.MULTILINE)
_PLACE = re.compile(r'^[^\n]*?: task "[^"]*": ', re.MULTILINE)


Say = Callable[[str], None]
"""Tells the user a line."""


class Engines:
    """Of one home."""

    def __init__(
        self, home: Home, environ: Mapping[str, str], *, simulated: str | None, as_root: bool, on_cpu: bool = False
    ) -> None:
        """*simulated*: "sim:N" for an engine that simulates GPUs. *on_cpu*: the run needs none, so that any will do."""
        self._home = home
        self._gpus = simulated or "all"
        self._any_gpus = on_cpu and simulated is None
        self._as_root = as_root
        self._book = Book(home)
        # Which GPUs a run may use is said for each; the engine of all of them sees what the box has.
        drop = () if environ.get("SLURM_JOB_ID") else ("CUDA_VISIBLE_DEVICES",)
        self._environ = {name: value for name, value in environ.items() if name not in drop}
        self._warned: set[str] = set()

    def enter(self, wanted: Wanted, say: Say) -> tuple[str, Connection]:
        """Write a command down and hand it to an engine: its name, and that engine. Raises DeckError."""
        self.tidy()
        name = self._book.enter(wanted.entry, wanted.name, wanted.environment)
        try:
            return name, self.take(name, say)
        except BaseException:  # Ctrl-C as well: nobody waits for the run any more, so no later engine may start it.
            self._book.take_back(name)
            raise

    def take(self, name: str, say: Say) -> Connection:
        """An engine that has the run *name*, which stands in the file. Raises DeckError with what is wrong with it."""
        deadline = time.monotonic() + TAKE_S
        while True:
            try:
                return self._take(name, say)
            except Gone:
                if time.monotonic() > deadline:
                    raise
            except (UsageError, TaskFileError) as error:
                if not self._made_way(str(error), name, say):
                    raise UsageError(_PLACE.sub("", str(error))) from None

    def _take(self, name: str, say: Say) -> Connection:
        connection = attach(self._home.path, RunOptions())
        if connection is None:
            for cut_off in self._drop_cut_off():
                say(f"{cut_off} was cut off by a restart of the box and is not run again")
            options = RunOptions(gpus=self._gpus)
            connection = attach_or_start(
                self._home.path, options, self._environ, as_root=self._as_root, warn=self._warn(say)
            )
        try:
            self._refuse_other_gpus(connection, say)
            self._make_known(connection, name)
        except DeckError:
            connection.close()
            raise
        return connection

    def _warn(self, say: Say) -> Say:
        def once(text: str) -> None:
            if text not in self._warned:
                self._warned.add(text)
                say(text)

        return once

    def _make_known(self, connection: Connection, name: str) -> None:
        """One that was started for it has read the file; another is told of it."""
        try:
            connection.request("rows", tasks=[name])
            return
        except UsageError:
            pass
        try:
            connection.request("apply")
        except DeckError:
            if _ends(connection):
                raise Gone("the engine has ended") from None
            raise
        connection.request("rows", tasks=[name])

    def _refuse_other_gpus(self, connection: Connection, say: Say) -> None:
        """Real work on GPUs does not go to an engine that simulates them, nor the other way round."""
        if self._any_gpus:
            return
        running = decode(connection.request("options")["options"]).gpus or "all"
        if running != self._gpus and (_simulated(running) or _simulated(self._gpus)):
            whose = "your queue" if self._home.kind == QUEUE else "the trials here"
            if _is_idle(connection):
                say(f"the idle engine of {whose} (--gpus {running}) makes way for one with --gpus {self._gpus}")
                with contextlib.suppress(Gone):
                    connection.request("stop")
                    for _ in connection.messages(TAKE_S):
                        pass
                raise Gone("it has made way for one with these GPUs")
            stops = "`gpudeck stop --queue` ends it, and what runs goes on; or it" if self._home.kind == QUEUE else "it"
            last = [row.name for row in connection.wait_for_picture().rows.values() if row.state not in ENDED]
            raise EngineUnavailableError(
                f"the engine of {whose} has other GPUs (--gpus {running}) and {names_text(last)} to run: "
                f"{stops} ends by itself ten seconds after that is over"
            )

    def started_since(self, ended: Connection) -> Connection | None:
        """An engine that somebody has started in the place of one that has said goodbye."""
        with contextlib.suppress(DeckError):
            connection = attach(self._home.path, RunOptions())
            if connection is not None and connection.hello.pid != ended.hello.pid:
                return connection
            if connection is not None:
                connection.close()
        return None

    # -- runs of before -----------------------------------------------------------------------------------------------

    def _made_way(self, error: str, name: str, say: Say) -> bool:
        """What other runs ask for may not fit the box as it is now: they must not be in the way of *name*. Returns
        whether that was wrong, and has been mended."""
        others = {named: words for named, words in _TASK.findall(error) if named != name}
        if not others or len(others) < len(_TASK.findall(error)):
            return False
        states = self._states()
        if any(states.get(other, "") in ACTIVE for other in others):
            return False
        for other, words in others.items():
            if states.get(other, "") not in ENDED:
                say(f"{other} is taken off the queue: {words}")
        self._book.drop(others.keys())
        return True

    def tidy(self) -> None:
        """Drop old runs when many have come together: what became of each has to be asked for."""
        if len(self._book.entries()) > KEPT + _SLACK:
            self.drop_ended(KEPT)

    def drop_ended(self, keep: int) -> None:
        """Drop runs that have ended, beyond the newest *keep* of the file. Their logs stay."""
        names = [str(entry["name"]) for entry in self._book.entries()]
        old = names[: max(0, len(names) - keep)]
        if old:
            states = self._states()
            self._book.drop([name for name in old if states.get(name, "") in ENDED])

    def _drop_cut_off(self) -> list[str]:
        """Runs that the box's end has ended: nobody waits for them any more, and they must not begin anew."""
        now = boot_mark()
        old = [str(entry["name"]) for entry in self._book.entries() if _boot_of(entry) not in ("", now)]
        if not old:
            return []
        states = self._states()
        cut_off = [name for name in old if states.get(name, "") not in ENDED]
        if cut_off:
            self._book.drop(cut_off)
        return cut_off

    def take_off(self, names: Collection[str]) -> None:
        """Take runs that have ended off the list now."""
        self._book.drop(names)
        connection = attach(self._home.path, RunOptions())
        if connection is not None:
            with connection, contextlib.suppress(Gone):
                connection.request("apply")

    def _states(self) -> Mapping[str, str]:
        """Of all runs in the file, as the engine says, or where there is none the journal."""
        connection = attach(self._home.path, RunOptions())
        if connection is not None:
            with connection:
                return {row.name: row.state for row in connection.wait_for_picture().rows.values()}
        from ..decks.offline import open_offline
        from ..serve.offline import OfflineLook  # half an engine, and seldom needed

        look = OfflineLook(open_offline(self._home.path, RunOptions(), self._environ), self._home.path)
        return {row.name: row.state for row in look.rows(())}


def _simulated(gpus: str) -> bool:
    return gpus.startswith("sim:")


def _boot_of(entry: Mapping[str, Any]) -> str:
    return str(entry.get("env", {}).get(RUN_VARIABLE, "")).partition("-")[0]


def _is_idle(connection: Connection) -> bool:
    """Nobody's command runs or waits in it."""
    rows = connection.wait_for_picture().rows.values()
    return all(row.state in ENDED for row in rows)


def _ends(connection: Connection) -> bool:
    try:
        for _ in connection.messages(_ENDING_S):
            pass
    except Gone:
        return True
    return False


_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2


class Asked:
    """SIGINT and SIGTERM, from entering it to leaving it. On the main thread."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self.times = 0
        self.handled = 0
        """How many were acted on. When several wait for that, something hangs, and the next one interrupts as usual."""
        self._before: dict[int, Any] = {}
        self._fds: tuple[int, int] = (-1, -1)

    def fileno(self) -> int:
        """Can be read when a signal has come."""
        return self._fds[0]

    def clear(self) -> None:
        """Let `fileno` wait for the next one."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._fds[0], 64):
                pass

    def hand_on(self, connection: Connection, name: str, what: str, say: Say) -> None:
        """The first one stops the task *name*, called *what*, as its own Ctrl-C would; the next ones kill it."""
        while self.handled < self.times:
            if not self.handled:
                say(f"stopping {what}; once more kills it")
            connection.request("kill" if self.handled else "cancel", tasks=[name])
            self.handled += 1  # not before: an engine that is lost meanwhile has not done it

    def __enter__(self) -> Asked:
        self._fds = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # A shell makes its background jobs ignore SIGINT: Ctrl-C is meant for others then.
        numbers = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._take) for number in numbers}
        signal.set_wakeup_fd(self._fds[1], warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for fd in self._fds:
            os.close(fd)

    def _take(self, number: int, _: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)
        self.times += 1
        if self.times > self.handled + _PATIENCE:
            raise KeyboardInterrupt


TELL_S = 1.0
"""A run that waits for longer says why, and looks as often whether the reason is another."""
WAITS = ("waiting", "queued")
_SHOWN = 3


class Wait:
    """Of one run."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name = name
        self._say = say
        self._look_at = time.monotonic() + TELL_S
        self._told = ""

    def tell(self, connection: Connection) -> None:
        """Say why, where that is new."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + TELL_S
        obstacles: Sequence[dict[str, Any]] = connection.request("explain", tasks=[self._name])[self._name]
        why = "; ".join(obstacle["text"] for obstacle in obstacles[:_SHOWN])
        gist = re.sub(r"\d+", "", why)
        if why and gist != self._told:
            self._told = gist
            self._say(f"{self._name} waits: {why}")

    def over(self, row: TaskRow) -> None:
        """It has started: say so where it was said to wait."""
        if self._told:
            self._say(f"{self._name} runs" + (f" on GPU {ranges(row.gpus)}" if row.gpus else ""))
            self._told = ""
