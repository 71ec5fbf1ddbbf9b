"""Stays with a run: passes on what it writes, says what it waits for, hands signals on, and ends with its exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from ..adapters.inotify import Writes
from ..client.connection import Connection, Gone, SaidGoodbye
from ..client.runs_home import Home
from ..errors import EngineUnavailableError
from ..logs.files import LogFolder
from ..protocol.states import DONE, ENDED
from ..protocol.wire import TaskRow
from ..runs.asked import Asked
from ..runs.engines import Engines
from ..runs.wait import TELL_S, WAITS, Wait
from ..taskfile.find import NAME
from .run_output import Output

TIMED_OUT = 124
"""As timeout(1) has it."""
_SPAWN = (126, 127)
_OWN = ("ok", "exit", "oom", "signal")
"""Ends whose exit code is the command's."""


def exit_of(row: TaskRow, asked: signal.Signals | None) -> int:
    """*row*: the run's, ended. *asked*: the signal by which we were told to stop it."""
    code = row.exit_code
    if row.state in DONE:
        return code or 0
    if row.state == "cancelled":
        return 128 + asked if asked is not None else code or 1
    if row.kind == "timeout":
        return TIMED_OUT
    if row.kind == "spawn error":
        return code if code in _SPAWN else EngineUnavailableError.exit_code
    if row.kind == "lost":
        return EngineUnavailableError.exit_code
    return code or 1


def last_words(row: TaskRow) -> str:
    """What its own output does not tell of its end; "" for nothing."""
    if row.state == "cancelled":
        return f"{row.name} was cancelled"
    if row.state == "failed" and row.kind != "exit":
        return f"{row.name}: {row.reason}"
    return ""


ENGINES = 5
"""So many engines may be lost under one run before something is taken to be wrong."""
BROKEN_PIPE = 141
_DRAIN_S = 0.001


class Follower:
    """Of one run, through the engines that it may need."""

    def __init__(self, home: Home, name: str, engines: Engines, asked: Asked, say: Callable[[str], None]) -> None:
        self._home = home
        self._name = name
        self._engines = engines
        self._asked = asked
        self._say = say
        self._output = Output.ours(name)
        self._logs = LogFolder(home.logs)
        self._writes = Writes()
        self._attempt = 0
        self._wait = Wait(name, say)
        self._hinted = False
        self._warned = False

    def follow(self, connection: Connection) -> int:
        """Returns the exit code. Raises EngineUnavailableError where it will not be known."""
        try:
            for _ in range(ENGINES):
                try:
                    with connection:
                        return self._follow(connection)
                except SaidGoodbye as error:
                    raise EngineUnavailableError(f"{error}; {self._where()}") from None
                except Gone:
                    self._say("the engine is gone; the next one goes on with the run")
                    connection = self._engines.take(self._name, self._say)
            raise EngineUnavailableError(f"one engine after the other is lost; {self._where()}")
        except BrokenPipeError:
            self._say(f"nobody reads what {self._name} writes any more; {self._where()}")
            return BROKEN_PIPE
        except KeyboardInterrupt:
            self._say(self._where())
            return 128 + (self._asked.first or 0)
        finally:
            self._writes.close()

    def _where(self) -> str:
        return f"`gpudeck logs --runs {self._name} -f` shows how {self._name} goes on"

    def _follow(self, connection: Connection) -> int:
        while True:
            row = connection.wait_for_picture().by_name().get(self._name)
            if row is None or row.gone:
                raise EngineUnavailableError(f"{self._name} was taken out of {self._home.path}")
            more = self._show(row)
            if row.state in ENDED:
                return self._end(row)
            if row.state == "unknown":
                raise EngineUnavailableError(f"what became of {self._name} cannot be proven; {self._where()}")
            self._hand_on(connection)
            waits = row.state in WAITS
            if waits and "claimed" in self._wait.tell(connection):
                self._hint()
            elif not waits:
                self._wait.over(row)
            most_s = 0 if more else TELL_S if waits else None
            self._writes.wait([connection.fileno(), self._asked.fileno()], most_s)
            self._asked.clear()
            for _ in connection.messages(_DRAIN_S):
                pass

    def _show(self, row: TaskRow) -> bool:
        if row.attempt and row.needs_gpus and not row.gpus and not self._warned:
            self._warned = True
            self._say(f"no NVIDIA GPU on this box: {self._name} runs on the CPU")
        for number in range(self._attempt + 1, row.attempt + 1):
            paths = self._logs.paths(self._name, number, False)
            self._output.go_over(paths)
            self._writes.watch(paths.dir)
            if number > 1:
                self._say(f"{self._name}: attempt {number}")
            self._attempt = number
        return self._output.show()

    def _end(self, row: TaskRow) -> int:
        self._output.end()
        signal = self._asked.first if self._asked.handled else None
        if words := last_words(row):
            self._say(words)
        return exit_of(row, signal)

    # -- signals ------------------------------------------------------------------------------------------------------

    def _hand_on(self, connection: Connection) -> None:
        """The first one stops the run as its own Ctrl-C would, the next ones kill it."""
        while self._asked.handled < self._asked.times:
            if self._asked.handled == 0:
                self._say(f"stopping {self._name}; once more kills it")
                connection.request("cancel", tasks=[self._name])
            else:
                connection.request("kill", tasks=[self._name])
            self._asked.handled += 1  # not before: an engine that is lost meanwhile has not done it

    def _hint(self) -> None:
        if not self._hinted and os.path.exists(os.path.join(self._home.folder, NAME)):
            self._say("`gpudeck add -- COMMAND` puts a command into the queue of the deck here instead")
        self._hinted = True
