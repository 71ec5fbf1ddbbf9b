"""`gpudeck logs`: what tasks wrote, and with -f what they write, until nothing more can come."""

from __future__ import annotations

import codecs
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec import structs

from ...engine.adapters.inotify import LOOK_S, Writes
from ...engine.adapters.state.mounts import on_network
from ...engine.client.connection import Connection, Gone
from ...engine.client.place import Place, say
from ...engine.command import Command
from ...engine.errors import UsageError
from ...engine.logs.files import AttemptPaths, LogFolder, rank_logs, size_of
from ...engine.logs.log_file import LogTail
from ...engine.logs.printable import last_frame, printable
from ...engine.protocol.picture import Picture
from ...engine.protocol.states import ACTIVE, may_change
from ...engine.protocol.wire import TaskRow
from ...engine.text import cell_width, field_text, fit, plural
from ...engine.text import printable as name_text
from .look import LiveLook, Look, look, some_rows
from .rows import waits_text
from .screen import out

if TYPE_CHECKING:
    from ...engine.serve.offline import OfflineLook


LINE_CHARS = 65536
"""Longer lines are cut."""

_COLOUR = re.compile(r"\x1b\[([0-9;:]{0,40})m")
_PLACE = "\ue000"
"""Stands for a colour while everything else is dropped; a character of private use, which no log means."""
_CONCEAL = "8"
_COLOURS = ("36", "32", "33", "35", "34", "31")
MOVING_S = 5.0
"""How often a progress bar becomes a line where it cannot be drawn in place."""
_NAME_COLUMNS = 40
_PARTS = 16
"""Chunks of one log that are shown before the next log has its turn."""


class Sink(Protocol):
    """Where the bytes of a log go."""

    def write(self, data: bytes) -> None:
        """Raises BrokenPipeError when nobody reads."""
        ...

    def rest(self) -> None:
        """Show what is not a whole line yet: more may come."""
        ...

    def end(self) -> None:
        """Nothing more comes of this log."""
        ...


class LogFeed:
    """One log after the other, passed on as it is written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._log: LogTail | None = None

    @property
    def is_open(self) -> bool:
        return self._log is not None

    def begin(self, path: str, last: int | None = None) -> bool:
        """Go over to a log: to its *last* lines, None: to its beginning. False: there is none."""
        log = LogTail(path)
        if not log.is_there:
            return False
        self.end()
        if last is not None:
            log.seek_last(last)
        self._log = log
        return True

    def drain(self) -> int:
        """Pass on what is there; returns how many bytes that was. Much is done in parts: call again until it is 0."""
        size = 0
        for _ in range(_PARTS):
            if self._log is None or not (data := self._log.read()):
                break
            size += len(data)
            self._sink.write(data)
        if size:
            self._sink.rest()
        return size

    def end(self) -> None:
        """Pass on what is left of the log that is open, and close it. Idempotent."""
        if self._log is None:
            return
        while self.drain():
            pass
        self._sink.end()
        self._log.close()
        self._log = None


class Lines:
    """Bytes of a log become lines, as they come."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """The lines that *data* completes."""
        *lines, rest = (self._rest + self._decoder.decode(data)).split("\n")
        if len(rest) > LINE_CHARS:
            frames = rest.rpartition("\r")[2]
            rest = rest[:LINE_CHARS] if len(frames) > LINE_CHARS else frames
        self._rest = rest
        return [self._clean(line) for line in lines]

    @property
    def moving(self) -> bool:
        """The line that is not complete is one that is written over and over, as progress bars are."""
        return "\r" in self._rest

    def rest(self) -> str:
        """The line that is not complete, as it stands."""
        return self._clean(self._rest)

    def end(self) -> str:
        """The same, and forget it."""
        text, self._rest = self.rest(), ""
        self._decoder.reset()
        return text

    def _clean(self, line: str) -> str:
        line = last_frame(line)
        if len(line) > LINE_CHARS:
            line = line[: LINE_CHARS - 1] + "…"
        if "\t" in line:
            line = line.expandtabs(8)
        if not self._colour or "\x1b" not in line:
            return printable(line)
        colours = [found[0] for found in _COLOUR.finditer(line)]
        texts = printable(_COLOUR.sub(_PLACE, line.replace(_PLACE, ""))).split(_PLACE)
        shown = [code if _harmless(code) else "" for code in colours]
        return "".join(piece for pair in zip(texts, [*shown, "\x1b[0m"], strict=True) for piece in pair)


def _harmless(code: str) -> bool:
    """Text that is made invisible would be there when it is copied."""
    numbers = re.split(r"[;:]", code[2:-1])
    return _CONCEAL not in numbers or "38" in numbers or "48" in numbers


class Printer:
    """With several names each line begins with its task's."""

    def __init__(
        self, stream: BinaryIO, names: Sequence[str], *, colour: bool, columns: int | None, follow: bool
    ) -> None:
        """*columns*: of the terminal, None: there is none. *follow*: lines that are not complete are shown as well."""
        self._stream = stream
        self._encoding = sys.stdout.encoding
        self.colour = colour
        self._columns = columns
        self._follow = follow
        self._prefixes = _prefixes(names, colour=colour) if len(names) > 1 else {}
        self._drawn = False
        self._moved: dict[str, tuple[float, str]] = {}

    def lines(self, name: str, lines: Sequence[str]) -> None:
        """Print whole lines."""
        if not lines:
            return
        self._moved.pop(name, None)
        prefix = self._prefixes.get(name, "")
        self._write(self._wipe() + "".join(f"{prefix}{line}\n" for line in lines))

    def moving(self, name: str, text: str, *, bar: bool) -> None:
        """A line that is not complete: drawn in place where there is one log on a terminal; elsewhere a *bar* becomes
        a line now and then."""
        if not self._follow:
            return
        if self._columns is not None and not self._prefixes:
            if text:
                too_wide = "\x1b" in text or cell_width(text) >= self._columns
                shown = fit(name_text(text), self._columns - 1).rstrip() if too_wide else text
                self._write(self._wipe() + shown)
                self._drawn = True
        elif bar:
            at, said = self._moved.get(name, (float("-inf"), ""))
            if text != said and time.monotonic() - at >= MOVING_S:
                self._write(f"{self._prefixes.get(name, '')}{text}\n")
                self._moved[name] = time.monotonic(), text

    def flush(self) -> None:
        """Show what was printed."""
        self._stream.flush()

    def close(self) -> None:
        """What is drawn in place stays."""
        if self._drawn:
            self._write("\n")
            self._drawn = False
        self.flush()

    def _wipe(self) -> str:
        drawn, self._drawn = self._drawn, False
        return "\r\x1b[K" if drawn else ""

    def _write(self, text: str) -> None:
        self._stream.write(text.encode(self._encoding, "replace"))


def _prefixes(names: Sequence[str], *, colour: bool) -> dict[str, str]:
    """As wide as the longest name, up to a limit."""
    shown = {name: name_text(name) for name in names}
    width = min(_NAME_COLUMNS, max(cell_width(text) for text in shown.values()))
    found: dict[str, str] = {}
    for at, (name, text) in enumerate(shown.items()):
        padded = text + " " * (width - cell_width(text))
        code = _COLOURS[at % len(_COLOURS)]
        found[name] = f"\x1b[{code}m{padded} |\x1b[0m " if colour else f"{padded} | "
    return found


class PrintedLog:
    """A sink: the lines of a printer."""

    def __init__(self, name: str, printer: Printer) -> None:
        self._name = name
        self._printer = printer
        self._lines = Lines(colour=printer.colour)

    def write(self, data: bytes) -> None:
        self._printer.lines(self._name, self._lines.feed(data))

    def rest(self) -> None:
        self._printer.moving(self._name, self._lines.rest(), bar=self._lines.moving)
        self._printer.flush()

    def end(self) -> None:
        if text := self._lines.end():
            self._printer.lines(self._name, [text])
        self._printer.close()


MOST_FOLLOWED = 200
"""Tasks that are followed at once."""
_LOOK_S = 2.0
"""Without an engine: between looks whether the tasks still run, and whether an engine has come."""


def run(command: Command) -> int:
    """Print logs. Returns 1 where there was none to be read."""
    given, follow = command.given, command.flag("follow")
    place = Place.of(command)
    found = look(place)
    rows = _named(found, command.words) if command.words else [row for row in found.rows(()) if row.state in ACTIVE]
    if not rows:
        place.say("nothing runs: `gpudeck logs state:failed` shows what failed, `gpudeck logs NAME` a task")
        return 1
    if follow and len(rows) > MOST_FOLLOWED:
        raise UsageError(f"that means {len(rows)} tasks, and at most {MOST_FOLLOWED} are followed at once")
    logs = found.logs()
    screen = out(command)
    names = [row.name for row in rows]
    printer = Printer(sys.stdout.buffer, names, colour=screen.colour, columns=screen.columns, follow=follow)
    err, rank = command.flag("err"), given.get("rank") or 0
    told = {row.name: row if given.get("attempt") else _done_by(row) for row in rows}
    feeds = {name: Feed(row.name, logs, printer, err=err, rank=rank) for name, row in told.items()}
    shown = [_show(command, row, feeds[name]) for name, row in told.items()]
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


def _named(found: Look, words: Sequence[str]) -> list[TaskRow]:
    """Raises UsageError where they mean none: of tasks that left the file, too, the logs stay."""
    try:
        return some_rows(found, words)
    except UsageError as error:
        logs = found.logs()
        left = [logs.paths(word, number, False).out for word in words if (number := logs.highest(word))]
        raise UsageError(
            f"{error}; the file has no such task any more: {', '.join(left)}" if left else str(error)
        ) from error


def _done_by(row: TaskRow) -> TaskRow:
    """Where its work was done under another name it is told as what did it."""
    if row.done_by is None:
        return row
    name, attempt = row.done_by
    say(f"{field_text(row.name)} was done as {field_text(name)}: this is its log")
    return structs.replace(row, name=name, attempt=attempt)


def _show(command: Command, row: TaskRow, feed: Feed) -> bool:
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
    failed = number < row.attempt or row.kind != "ok"
    if last and not (running or feed.err) and (failed or not size) and feed.has_errors(number):
        feed.show_errors(number, last)
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
        self._printer = printer

    def paths(self, number: int) -> AttemptPaths:
        """Of the rank that is shown."""
        return self._logs.paths(self.name, number, False).of_rank(self.rank)

    def path(self, number: int) -> str:
        """Standard output, or standard error; where the two are one file, that."""
        paths = self.paths(number)
        return paths.err if self.err and os.path.exists(paths.err) else paths.out

    def show_errors(self, number: int, last: int) -> None:
        """The last lines of an attempt's standard error, under a heading on our own."""
        self.end()
        rank = f" rank {self.rank}" if self.rank else ""
        say(f"{field_text(self.name)} attempt {number}{rank}, standard error:")
        errors = Feed(self.name, self._logs, self._printer, err=True, rank=self.rank)
        errors.open(number, last)
        errors.end()

    def has_errors(self, number: int) -> bool:
        """Something was written to standard error."""
        return size_of(self.paths(number).err) > 0

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
        # Other hosts may write there, of which the kernel here does not tell.
        self._look_s = LOOK_S if any(on_network(feed.paths(1).dir) for feed in list(feeds.values())[:1]) else None
        self._waits: dict[str, int] = {}
        """By task, the attempt of which it was said why the cluster has not begun it."""

    def run(self, look: Look) -> None:
        """Returns when all of them have come to an end."""
        try:
            while True:
                if isinstance(look, LiveLook):
                    if self._live(look.connection):
                        return
                    from ...engine.serve.offline import offline_look

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
                    connection.drain()
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
