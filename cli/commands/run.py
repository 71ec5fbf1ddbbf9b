"""`gpudeck run -- COMMAND`: waits for GPUs, runs one command on them, and ends as it ends."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TextIO

from ...engine.adapters.inotify import Writes
from ...engine.adapters.processes.terminal import command_of
from ...engine.client.connection import Connection, Gone, SaidGoodbye
from ...engine.client.files import Home, queue_home
from ...engine.client.place import say
from ...engine.command import Command
from ...engine.errors import DeckError, EngineUnavailableError, UsageError
from ...engine.logs.files import AttemptPaths, LogFolder
from ...engine.protocol.states import ACTIVE, DONE, ENDED
from ...engine.protocol.wire import TaskRow
from ...engine.runs.engines import MOST_LOST, TELL_S, WAITS, Asked, Engines, Wait
from ...engine.runs.wanted import Wanted, wanted_of
from ...engine.taking import take_places
from ...engine.taskfile.find import find_task_file
from ...engine.taskfile.placeholders import escaped
from ...engine.text import field_text
from .logs import LogFeed, PrintedLog, Printer, Sink
from .screen import Screen, print_json
from .terminal import has_terminal, refuse_no_terminal, sit_at


class CommandNotFoundError(DeckError):
    """There is no such program. The exit code is a shell's."""

    exit_code = 127


class NotExecutableError(DeckError):
    """It is there and cannot be executed."""

    exit_code = 126


def refuse_missing(command: str | Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises CommandNotFoundError, NotExecutableError. *command*: as `command_of` has it; of a line for bash, bash
    tells. *environment*: what it will start from, here."""
    if isinstance(command, str):
        return
    program = command[0]
    if "/" in program:
        _refuse_path(program)
        return
    path = environment.get("PATH", os.defpath)
    if shutil.which(program, path=path) is None:
        for folder in path.split(os.pathsep):
            if os.path.isfile(os.path.join(folder, program)):
                raise _not_executable(os.path.join(folder, program))
        here = f"; the one here is ./{program}" if os.path.isfile(program) else ""
        raise CommandNotFoundError(f"{program}: command not found on PATH{here}")


def _refuse_path(path: str) -> None:
    if not os.path.exists(path):
        seen_from = "" if os.path.isabs(path) else f" in {os.getcwd()}"
        raise CommandNotFoundError(f"{path}: command not found: no such file{seen_from}")
    if os.path.isdir(path):
        raise NotExecutableError(f"{path}: is a folder, not a program")
    if not os.access(path, os.X_OK):
        raise _not_executable(path)


def _not_executable(path: str) -> NotExecutableError:
    return NotExecutableError(f"{path}: not executable: chmod +x it, or name the program that runs it")


_SESSIONS = [[name] for name in ("bash", "sh", "zsh", "fish", "python", "python3", "ipython")]
"""What somebody wants to sit at."""


def run(command: Command) -> int:
    """Returns the command's exit code; with --detach 0 as soon as an engine has it. Raises DeckError."""
    if command.file is not None:
        raise UsageError("run needs no task file: `gpudeck add -- COMMAND` puts a command into one")
    wanted = wanted_of(command, os.environ)
    refuse_missing(wanted.command, wanted.environment)
    if command.flag("interactive") and not command.flag("detach"):
        refuse_no_terminal()
    elif not command.flag("interactive") and wanted.command in _SESSIONS and sys.stdin.isatty():
        say(f"nothing of what you type reaches it: `gpudeck run -i -- {wanted.command[0]}` gives it this terminal")
    return queue(command, wanted, detach=command.flag("detach"))


def queue(command: Command, wanted: Wanted, *, detach: bool) -> int:
    """Put a command into the user's queue. See `run`."""
    as_root = command.flag("as_root")
    home = queue_home(as_root=as_root)
    on_cpu = wanted.entry["gpus"] == 0
    interactive = command.flag("interactive")
    if interactive:
        wanted = on_terminal(wanted, home.state)
    engines = Engines(home, os.environ, simulated=wanted.simulated, as_root=as_root, on_cpu=on_cpu)
    with Asked() as asked:
        quietly: Callable[[str], None] = (lambda _: None) if command.flag("quiet") else say
        name, connection = engines.enter(wanted, say)
        now = command.flag("now")
        if detach:
            with connection:
                take_places(connection, [name] if now else [], quietly, asked.fileno())
                if not on_cpu and not connection.wait_for_picture().gpus:
                    quietly(_no_gpu(name, wanted.entry["gpus"] if command.verb == "run" else 0))
            if command.flag("json"):
                print_json({"added": [name]})
            else:
                print(field_text(name))
            if not command.flag("quiet"):
                follows = f"attach {name}` sits down at it" if interactive else f"logs --queue {name} -f` follows it"
                say(f"`gpudeck {follows}, `gpudeck cancel --queue {name}` stops it")
            return 0
        return Follower(home, name, engines, asked, quietly, terminal=interactive, now=now).follow(connection)


def on_terminal(wanted: Wanted, state: str) -> Wanted:
    """The same command on a terminal that is held in the folder of the queue's *state*. Raises UsageError."""
    if "launch" in wanted.entry:
        raise UsageError("-i and --launch: several processes cannot sit at one terminal")
    line = wanted.command
    words = ["bash", "-c", line] if isinstance(line, str) else line
    held = [escaped(word) for word in command_of(state, words)]
    return replace(wanted, entry={**wanted.entry, "command": held})


def _no_gpu(name: str, wanted: object) -> str:
    """*wanted*: so many GPUs as `run` can simulate for it."""
    text = f"no NVIDIA GPU on this box: {name} runs on the CPU"
    if not wanted:
        return text
    if _deck_here():
        return f"{text}; `gpudeck add --next -- COMMAND` gives it the next slot of the deck here"
    return f"{text}; `--gpus sim:{wanted}` simulates GPUs for it"


def _deck_here() -> bool:
    with contextlib.suppress(UsageError):
        return os.path.isfile(find_task_file(None, os.environ, os.getcwd()))
    return False


TIMED_OUT = 124
"""As timeout(1) has it."""
_SPAWN = (126, 127)


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
    if row.state in ("cancelled", "pruned"):
        return f"{row.name} was {row.state}"
    if row.state == "failed" and row.kind != "exit":
        return f"{row.name}: {row.reason}"
    return ""


BROKEN_PIPE = 141
_LOOK_S = 0.02
"""A terminal is there, and a row settled, within some hundredths of a second."""


class _LeftError(Exception):
    """Ctrl-\\, typed while it still waits: once it has a terminal the key leaves that."""


def _leave(*_: object) -> None:
    raise _LeftError


class Follower:
    """Of one run, through the engines that it may need."""

    def __init__(
        self,
        home: Home,
        name: str,
        engines: Engines,
        asked: Asked,
        say: Callable[[str], None],
        *,
        terminal: bool = False,
        now: bool = False,
    ) -> None:
        """*terminal*: it has one, at which we sit down. *now*: it is to have the place of what runs, of each engine
        anew: a place that came free while none was there is gone."""
        self._terminal = terminal
        self._now = now
        self._sat = 0
        """The attempt at whose terminal we sat until it ended."""
        self._home = home
        self._name = name
        self._engines = engines
        self._asked = asked
        self._say = say
        self._output = Output(name, sys.stdout, sys.stderr, os.environ)
        self._logs = LogFolder(home.logs)
        self._writes = Writes()
        self._attempt = 0
        self._wait = Wait(name, say)
        self._warned = False
        self._late_at = inf
        """When what lasts though its command, or our place at its terminal, has ended is told of."""
        self._lingers = 0
        """The attempt of which that was told."""

    def follow(self, connection: Connection) -> int:
        """Returns the exit code. Raises EngineUnavailableError where it will not be known."""
        before = signal.signal(signal.SIGQUIT, _leave) if self._terminal else None
        try:
            for _ in range(MOST_LOST):
                try:
                    with connection:
                        take_places(connection, [self._name] if self._now else [], self._say, self._asked.fileno())
                        return self._follow(connection)
                except SaidGoodbye as error:
                    if (found := self._engines.started_since(connection)) is None:
                        raise EngineUnavailableError(f"{error}; {self._where()}") from None
                    connection = found
                except Gone:
                    self._say("the engine is gone; the next one goes on with the run")
                    connection = self._engines.take(self._name, self._say)
            raise EngineUnavailableError(f"one engine after the other is lost; {self._where()}")
        except BrokenPipeError:
            self._say(f"nobody reads what {self._name} writes any more; {self._where()}")
            return BROKEN_PIPE
        except _LeftError:
            self._say(f"{self._name} still waits: `gpudeck attach {self._name}` sits down once it has started")
            return 0
        except KeyboardInterrupt:
            self._say(self._where())
            return 128 + (self._asked.first or 0)
        finally:
            if self._terminal:
                signal.signal(signal.SIGQUIT, before)
            self._writes.close()

    def _where(self) -> str:
        if not self._attempt:
            return f"`gpudeck start --queue` goes on with what waits, {self._name} too"
        return f"`gpudeck logs --queue {self._name} -f` shows how {self._name} goes on"

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
            self._asked.hand_on(connection, self._name, self._name, self._say)
            if self._terminal and row.state in ACTIVE and row.attempt > self._sat:
                if (code := self._sit(row)) is not None:
                    return code
                more = True
            waits = row.state in WAITS
            if waits:
                self._wait.tell(connection)
            else:
                self._wait.over(row)
            lasts = row.state == "closing" or (row.state == "running" and self._sat == row.attempt)
            if lasts and self._is_elsewhere(row):
                return 0
            most_s = _LOOK_S if more and self._terminal else 0 if more else TELL_S if waits or lasts else None
            self._writes.wait([connection.fileno(), self._asked.fileno()], most_s)
            self._asked.clear()
            connection.drain()

    def _is_elsewhere(self, row: TaskRow) -> bool:
        """Whether somebody else sits at its terminal now. What its command has left in the background is told of."""
        now = time.monotonic()
        self._late_at = min(self._late_at, now + TELL_S)
        if now < self._late_at or self._lingers == row.attempt:
            return False
        if row.state == "closing":
            self._lingers = row.attempt
            self._say(f"{self._name}: {row.reason}; Ctrl-C stops that")
        elif has_terminal(self._home.state, self._name):
            self._say(f"{self._name} goes on at another terminal: `gpudeck attach {self._name}` brings it back")
            return True
        return False

    def _show(self, row: TaskRow) -> bool:
        if row.on_cpu and not self._warned:
            self._warned = True
            self._say(_no_gpu(self._name, row.needs_gpus))
        for number in range(self._attempt + 1, row.attempt + 1):
            paths = self._logs.paths(self._name, number, False)
            self._output.go_over(paths)
            self._writes.watch(paths.dir)
            if number > 1:
                self._say(f"{self._name}: attempt {number}")
            elif self._terminal:
                self._say(f"{self._name}: Ctrl-\\ leaves it, `gpudeck attach {self._name}` comes back")
            self._attempt = number
        return not self._terminal and self._output.show()

    def _sit(self, row: TaskRow) -> int | None:
        """At its terminal, once there is one. Returns the exit code where the user leaves."""
        self._wait.over(row)
        try:
            how = sit_at(self._home.state, self._name, asked=self._asked.fileno())
        except OSError:  # it has not been made yet, or is gone
            return None
        if how == "ended":
            self._sat = row.attempt
        if how not in ("left", "hung up"):
            return None
        self._say(f"{self._name} goes on: `gpudeck attach {self._name}` sits down at it again")
        return 0 if how == "left" else 128 + signal.SIGHUP

    def _end(self, row: TaskRow) -> int:
        if not self._terminal:
            self._output.end()
        if row.state == "cancelled" and self._lingers == row.attempt and row.exit_code is not None:
            return row.exit_code  # of its own: Ctrl-C was for what it had left
        stopped_by = self._asked.first if self._asked.handled else None
        if words := last_words(row):
            self._say(words)
        return exit_of(row, stopped_by)


class Output:
    """Of one run, through its attempts."""

    def __init__(self, name: str, out: TextIO, err: TextIO, environ: Mapping[str, str]) -> None:
        """Where *out* or *err* is a terminal, nothing that it would obey but colours is let through to it; a pipe or a
        file gets every byte as it is."""
        # On one screen a line that is drawn in place is wiped before the other stream writes.
        screen = _printer(name, out, environ) if out.isatty() and err.isatty() else None
        sinks: list[Sink] = []
        for stream in (out, err):
            stream.flush()
            if stream.isatty():
                sinks.append(PrintedLog(name, screen or _printer(name, stream, environ)))
            else:
                sinks.append(_Raw(stream.fileno()))
        self._streams = tuple(map(_Stream, sinks))

    def go_over(self, paths: AttemptPaths) -> None:
        """To another attempt. Its logs need not be there yet."""
        for stream, path in zip(self._streams, (paths.out, paths.err), strict=True):
            stream.go_over(path)

    def show(self) -> bool:
        """Pass on some of what is there. Returns whether there was any. Raises BrokenPipeError when nobody reads."""
        return sum(stream.drain() for stream in self._streams) > 0

    def end(self) -> None:
        """The run is over: pass on the rest."""
        while self.show():
            pass
        for stream in self._streams:
            stream.end()


class _Stream(LogFeed):
    """Its log need not be there yet."""

    _path = ""

    def go_over(self, path: str) -> None:
        if path != self._path:
            self.end()
            self._path = path

    def drain(self) -> int:
        if not self.is_open and self._path:
            self.begin(self._path)
        return super().drain()


class _Raw:
    """A pipe or a file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:  # somebody else has made the pipe so
                select.select([], [self._fd], [])

    def rest(self) -> None: ...
    def end(self) -> None: ...


def _printer(name: str, stream: TextIO, environ: Mapping[str, str]) -> Printer:
    screen = Screen.of(stream, environ)
    return Printer(stream.buffer, [name], colour=screen.colour, columns=screen.columns, follow=True)
