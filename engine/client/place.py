"""Which deck a command is about, and the way to it: its engine, or what is on disk where none runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ... import __version__
from ..adapters.state.folder import TELLING, load_environment
from ..command import Command
from ..decks.options import Purpose, changed, decode, refuse_other
from ..decks.states import find_state
from ..errors import DeckError, EngineUnavailableError, UsageError
from ..hints import Hints
from ..protocol.words import barred_text
from ..taskfile.options import RunOptions
from ..text import field_text, printable
from .attach import attach, attach_or_start, has_engine, running_alone
from .connection import Connection, Gone
from .files import queue_file, task_file

NO_FILE = "no tasks.toml here or above: this is your queue of single commands"


@dataclass(frozen=True, slots=True)
class Place:
    """A task file and the options that say which of its states is meant."""

    path: str
    """Absolute."""
    options: RunOptions
    environ: Mapping[str, str]
    as_root: bool = False
    tell: Callable[[str], None] = field(default_factory=lambda: say)
    """Gets what the caller should know beside what was asked for, a line each."""
    hints: Hints = field(default_factory=Hints)
    """How the deck is named in commands that messages tell of."""

    @classmethod
    def of(cls, command: Command) -> Place:
        """Raises UsageError where no task file is found."""
        path = os.path.abspath(task_file(command))
        hints = Hints.of(command)
        if path == queue_file() and not hints.queue:
            say(NO_FILE)
            hints = replace(hints, file="", queue=True)  # of what is about a deck as a whole it is not meant unsaid
        return cls(path, command.options(), os.environ, command.flag("as_root"), hints=hints)

    def say(self, text: str) -> None:
        """Tell a line; commands that it names in backticks are completed for this deck."""
        self.tell(self.hints.completed(text))

    def refuse_missing(self, typed: str | None) -> None:
        """Raises UsageError where there is no such file, nor an engine that goes on without it. *typed*: how the user
        named it."""
        if not os.path.exists(self.path) and not has_engine(self.path, self.options):
            runs_on = running_alone(self.path, self.options)
            raise UsageError(f"{typed or self.path}: no such file or command{'; ' if runs_on else ''}{runs_on}")

    def attach(self, *, change: bool = False) -> Connection | None:
        """The deck's engine; None: none runs. Raises DeckError where one runs and cannot be talked to, or runs with
        other options than are given; with *change* it is to take those that it can."""
        while (connection := attach(self.path, self.options)) is not None:
            try:
                self._greet(connection, change=change)
            except Gone:  # it was about to end; what comes after it is asked for
                continue
            return connection
        return None

    def start(
        self, purpose: Purpose = "look", *, takeover: bool = False, quiet: bool = False, change: bool = False
    ) -> Connection:
        """The deck's engine, started for a *purpose* where none runs; tells on stderr what the caller should know,
        unless *quiet* not that there is a new one. *change*: see `attach`; one that is there takes up what is new."""
        connection = None if takeover else self.attach(change=change)
        if connection is None:
            connection = attach_or_start(
                self.path,
                self.options,
                self.environ,
                as_root=self.as_root,
                takeover=takeover,
                purpose=purpose,
                warn=self.say,
            )
            if purpose == "note":
                halted = connection.head().halted
                goes_on = "`gpudeck unpause` goes on" if halted else "`gpudeck start` runs the deck"
                self.say(f"no task runs, and nothing starts now: {goes_on}")
            elif not quiet:
                self.say(f"engine {connection.hello.pid} now runs the deck; `gpudeck stop` ends it")
            # A new engine runs the deck under what an earlier start said.
            of_queue = self.path == queue_file()  # whose commands say each for itself what holds
            if (
                purpose in ("look", "resume", "act")
                and not of_queue
                and (still := connection.request("options")["held"])
            ):
                self.say(still)
        else:
            self.tell_environment()
            if change and connection.hello.version == __version__:
                connection.request("start")
        return connection

    def tell_what_bars(self, connection: Connection) -> None:
        """A line where the deck starts nothing of what waits."""
        head = connection.head()
        if head.paused:
            self.say(f"{field_text(head.paused)}, nothing starts: `gpudeck unpause` starts tasks again")
        elif head.halted:
            self.say(
                f"halted by {field_text(head.halted)}: what that has left waits; `gpudeck unpause` goes on with all of "
                "it, `gpudeck retry` runs tasks that have ended again"
            )
        if head.barred:
            self.say(field_text(barred_text(head)))

    def tell_edits(self, connection: Connection) -> None:
        """A line where the task file is another than the one that the deck runs by: nobody has applied that."""
        try:
            if connection.request("apply", dry_run=True)["changes"]:
                self.say("the task file has changed and counts as it was before: `gpudeck apply` takes it up")
        except UsageError as error:
            first = str(error).partition("\n")[0]
            self.say(f"the task file cannot be used, the deck goes on as it was: {first}; `gpudeck check` tells all")
        except DeckError:  # the engine ends, or the journal cannot be written, which is told elsewhere
            return

    def elsewhere(self) -> str:
        """Where no engine runs the deck: what to say when its tasks were left on another machine; "" when not."""
        state = find_state(self.path, self.options)
        return "" if state is None else state.left_elsewhere()

    def refuse_elsewhere(self) -> None:
        """Raises EngineUnavailableError where `elsewhere` has something to say."""
        if elsewhere := self.elsewhere():
            raise EngineUnavailableError(elsewhere)

    def tell_environment(self) -> None:
        """Tasks get the environment of the run's start: one line where the caller's is another."""
        state = find_state(self.path, self.options)
        kept = None if state is None else load_environment(state.path)
        if kept is None:
            return
        for name in TELLING:
            mine, theirs = self.environ.get(name, ""), kept.get(name, "")
            what = _path_difference(mine, theirs) if name == "PATH" else f"{name} {theirs or 'unset'}"
            if mine != theirs and what:
                self.say(f"tasks get {what}, not what this shell has: see `gpudeck env --refresh`")
                return

    def _greet(self, connection: Connection, *, change: bool) -> None:
        hello = connection.hello
        if hello.version != __version__:
            self.say(
                f"engine {hello.pid} is gpudeck {hello.version}, this is {__version__}: `gpudeck stop`, then start anew"
            )
        options: str = connection.request("options")["options"] if hello.version == __version__ else ""
        if replace(self.options, profile=None, name=None) == RunOptions():
            return
        running, given = decode(options), self.options
        if not change:
            refuse_other(running, given)
        elif changed(running, given) != running:
            wanted = {name: getattr(given, name) for name in ("gpus", "slots_per_gpu", "only", "with_needs")}
            self.say(connection.request("change", **wanted)["text"])


def _path_difference(mine: str, theirs: str) -> str:
    """The first folder that only one of them has; "" for the same ones in another order."""
    here, there = mine.split(os.pathsep), theirs.split(os.pathsep)
    for folder in here:
        if folder not in there:
            return f"a PATH without {folder}"
    for folder in there:
        if folder not in here:
            return f"a PATH with {folder}"
    return ""


def say(text: str) -> None:
    """A line beside what the command prints."""
    print(f"gpudeck: {printable(text)}", file=sys.stderr, flush=True)
