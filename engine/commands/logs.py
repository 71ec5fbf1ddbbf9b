"""`gpudeck logs`: what tasks wrote, and with -f what they write, until nothing more can come."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..adapters.inotify import LOOK_S, Writes
from ..adapters.state.mounts import on_network
from ..client.connection import Connection, Gone, Picture
from ..client.place import Place, say
from ..command import Command
from ..errors import UsageError
from ..logs.files import AttemptPaths, LogFolder, rank_logs
from ..protocol.states import ACTIVE
from ..protocol.wire import TaskRow
from ..text import field_text, plural
from .logprint import LogFeed, PrintedLog, Printer
from .look import LiveLook, Look, look
from .rows import may_change, waits_text

if TYPE_CHECKING:
    from ..offline.look import OfflineLook

MOST_FOLLOWED = 200
"""Tasks that are followed at once."""
_LOOK_S = 2.0
"""Without an engine: between looks whether the tasks still run, and whether an engine has come."""
_DRAIN_S = 0.001


def run(command: Command) -> int:
    """Print logs. Returns 1 where there was none to be read."""
    given, follow = command.given, command.flag("follow")
    place = Place.of(command)
    found = look(place)
    rows = found.rows(command.words)
    if not rows:
        raise UsageError(f"no task is {' or '.join(command.words)} now")
    if follow and len(rows) > MOST_FOLLOWED:
        raise UsageError(f"that means {len(rows)} tasks, and at most {MOST_FOLLOWED} are followed at once")
    logs = found.logs()
    printer = Printer.on_stdout([row.name for row in rows], follow=follow)
    err, rank = command.flag("err"), given.get("rank") or 0
    feeds = {row.name: Feed(row.name, logs, printer, err=err, rank=rank) for row in rows}
    shown = [_show(command, place, row, feeds[row.name]) for row in rows]
    if follow:
        following = Following(place, feeds, printer, attempt=given.get("attempt"))
        try:
            following.run(found)
        except KeyboardInterrupt:
            printer.close()
            return 130
    for feed in feeds.values():
        feed.end()
    printer.close()
    return 0 if any(shown) or any(feed.attempt for feed in feeds.values()) else 1


def _show(command: Command, place: Place, row: TaskRow, feed: Feed) -> bool:
    """The last lines of a task's log; False: there is none."""
    name, follow, last = field_text(row.name), command.flag("follow"), command.given.get("lines", 40)
    number = command.given.get("attempt") or row.attempt
    if number > row.attempt:
        raise UsageError(f"{name} has {plural(row.attempt, 'attempt')}, and not attempt {number}")
    if not number:
        say(f"{name} has not run: it is {row.state}")
        return False
    running = number == row.attempt and row.state in ACTIVE
    if not feed.open(number, last):
        if number == row.attempt and row.state == "starting":
            if not (follow and row.pending):  # which is told where the log is followed
                say(f"{name} {waits_text(row)}")
        else:
            say(_missing(feed, number, starts=running))
        return False
    size = feed.drain()
    if not follow:
        feed.end()
    if last and not (running or size or feed.err) and feed.has_errors(number):
        rank = f" --rank {feed.rank}" if feed.rank else ""
        place.say(f"{name} wrote nothing to standard output; `gpudeck logs {name}{rank} --err` shows standard error")
    return True


def _missing(feed: Feed, number: int, *, starts: bool) -> str:
    """*starts*: the attempt runs, and its launcher may have started no rank yet."""
    if not feed.rank:
        return f"{field_text(feed.path(number))} is not there"
    others = rank_logs(feed.paths(number).of_rank(0).out)
    if starts and not others:
        those = 'ranks have logs of their own with launch = "torchrun" and "accelerate"'
        return f"{field_text(feed.name)} attempt {number} has no log of rank {feed.rank} yet: {those}"
    there = f"the last is rank {max(others)}" if others else "all it wrote is in one log"
    return f"{field_text(feed.name)} attempt {number} has no rank {feed.rank}: {there}"


class Feed(LogFeed):
    """The log of one task, through its attempts."""

    def __init__(self, name: str, logs: LogFolder, printer: Printer, *, err: bool, rank: int = 0) -> None:
        super().__init__(PrintedLog(name, printer))
        self.name = name
        self.attempt = 0
        """Whose log was opened last; 0: none."""
        self.err = err
        self.rank = rank
        self._logs = logs

    def paths(self, number: int) -> AttemptPaths:
        """Of the rank that is shown."""
        return self._logs.paths(self.name, number, False).of_rank(self.rank)

    def path(self, number: int) -> str:
        """Standard output, or standard error; where the two are one file, that."""
        paths = self.paths(number)
        return paths.err if self.err and os.path.exists(paths.err) else paths.out

    def has_errors(self, number: int) -> bool:
        """Something was written to standard error."""
        try:
            return os.path.getsize(self.paths(number).err) > 0
        except OSError:
            return False

    def open(self, number: int, last: int | None) -> bool:
        """Go over to an attempt, see `begin`."""
        there = self.begin(self.path(number), last)
        self.attempt = number if there else self.attempt
        return there


class Following:
    """Of the tasks that *feeds* names, through later attempts; with *attempt* of that one alone."""

    def __init__(self, place: Place, feeds: Mapping[str, Feed], printer: Printer, *, attempt: int | None) -> None:
        self._place = place
        self._feeds = feeds
        self._printer = printer
        self._attempt = attempt
        self._writes = Writes()
        self._look_s = LOOK_S if _elsewhere_written(feeds) else None
        self._waits: dict[str, int] = {}
        """By task, the attempt of which it was said why the cluster has not begun it."""

    def run(self, look: Look) -> None:
        """Returns when all of them have come to an end."""
        try:
            while True:
                if isinstance(look, LiveLook):
                    if self._live(look.connection):
                        return
                    from ..offline.look import offline_look

                    say("the engine has ended")
                    look = offline_look(self._place)
                connection = self._offline(look)
                if connection is None:
                    return
                look = LiveLook(connection)
        finally:
            self._writes.close()

    # -- with an engine -----------------------------------------------------------------------------------------------

    def _live(self, connection: Connection) -> bool:
        """False: the engine has gone."""
        try:
            with connection:
                while self._more(connection.wait_for_picture()):
                    self._writes.wait([connection.fileno()], self._look_s)
                    for _ in connection.messages(_DRAIN_S):
                        pass
        except Gone:
            return False
        return True

    def _more(self, picture: Picture) -> bool:
        """Show what has come; returns whether more may come."""
        rows = [row for row in picture.rows.values() if row.name in self._feeds]
        for row in rows:
            self._go_over(row)
        self._show()
        return any(self._may_write(row, picture.head.ended) for row in rows)

    def _go_over(self, row: TaskRow) -> None:
        """To the newest attempt. Those that came and went since the last look are shown, too."""
        feed = self._feeds[row.name]
        self._open(feed, row.attempt)
        wanted = self._attempt in (None, row.attempt)
        if wanted and row.pending and row.attempt not in (feed.attempt, self._waits.get(row.name)):
            self._waits[row.name] = row.attempt
            say(f"{field_text(row.name)} {waits_text(row)}")

    def _open(self, feed: Feed, newest: int) -> None:
        if self._attempt is not None:
            _ = feed.attempt or feed.open(self._attempt, None)
        else:
            for number in range(feed.attempt + 1, newest + 1):
                if feed.open(number, None) and number > 1:
                    say(f"{feed.name}: attempt {number}")
        self._writes.watch(feed.paths(max(1, newest)).dir)

    def _may_write(self, row: TaskRow, ended: bool) -> bool:
        if self._attempt is not None:
            return row.attempt == self._attempt and row.state in ACTIVE
        return row.state in ACTIVE or may_change(row, ended=ended)

    def _show(self) -> None:
        while sum(feed.drain() for feed in self._feeds.values()):
            pass
        self._printer.flush()

    # -- without one --------------------------------------------------------------------------------------------------

    def _offline(self, look: OfflineLook) -> Connection | None:
        """Follows what runs on, until it ends or an engine comes, which is returned."""
        while True:
            for name, feed in self._feeds.items():
                self._open(feed, look.attempts_of(name))
            self._show()
            if not any(look.runs_on(name) for name in self._feeds):
                self._show()
                return None
            self._writes.wait([], _LOOK_S)
            if (connection := self._place.attach()) is not None:
                return connection


def _elsewhere_written(feeds: Mapping[str, Feed]) -> bool:
    """Other hosts may write there, of which the kernel here does not tell."""
    return any(on_network(feed.paths(1).dir) for feed in list(feeds.values())[:1])
