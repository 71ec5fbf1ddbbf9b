"""`gpudeck logs`: what tasks wrote, and with -f what they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..client.place import Place, say
from ..command import Command
from ..errors import UsageError
from ..headless.text import field_text, plural
from ..logs.rank_logs import rank_logs
from ..protocol.states import ACTIVE
from ..protocol.wire import TaskRow
from .logfeed import Feed
from .logfollow import MOST_FOLLOWED, Following
from .logprint import Printer
from .look import look
from .rows import waits_text


@dataclass(frozen=True, slots=True)
class _Asked:
    lines: int
    attempt: int | None
    err: bool
    follow: bool
    rank: int


def run(command: Command) -> int:
    """Print logs. Returns 1 where there was none to be read."""
    given = command.given
    asked = _Asked(
        given.get("lines", 40),
        given.get("attempt"),
        command.flag("err"),
        command.flag("follow"),
        given.get("rank") or 0,
    )
    place = Place.of(command)
    found = look(place)
    rows = found.rows(command.words)
    if not rows:
        raise UsageError(f"no task is {' or '.join(command.words)} now")
    if asked.follow and len(rows) > MOST_FOLLOWED:
        raise UsageError(f"that means {len(rows)} tasks, and at most {MOST_FOLLOWED} are followed at once")
    logs = found.logs()
    printer = Printer.on_stdout([row.name for row in rows], follow=asked.follow)
    feeds = {row.name: Feed(row.name, logs, printer, err=asked.err, rank=asked.rank) for row in rows}
    shown = _show(place, rows, feeds, asked)
    if asked.follow:
        following = Following(place, feeds, printer, attempt=asked.attempt)
        try:
            following.run(found)
        except KeyboardInterrupt:
            printer.close()
            return 130
    for feed in feeds.values():
        feed.end()
    printer.close()
    return 0 if shown or any(feed.attempt for feed in feeds.values()) else 1


def _show(place: Place, rows: Sequence[TaskRow], feeds: Mapping[str, Feed], asked: _Asked) -> int:
    """The last lines of each; returns how many logs there were."""
    shown = 0
    for row in rows:
        number = asked.attempt or row.attempt
        if number > row.attempt:
            raise UsageError(f"{field_text(row.name)} has {plural(row.attempt, 'attempt')}, and not attempt {number}")
        if not number:
            say(f"{field_text(row.name)} has not run: it is {row.state}")
        else:
            shown += _open(place, row, number, feeds[row.name], asked)
    return shown


def _missing(feed: Feed, number: int, asked: _Asked, *, starts: bool) -> str:
    """*starts*: the attempt runs, and its launcher may have started no rank yet."""
    if not asked.rank:
        return f"{field_text(feed.path(number))} is not there"
    others = rank_logs(feed.paths(number).of_rank(0).out)
    if starts and not others:
        those = 'ranks have logs of their own with launch = "torchrun" and "accelerate"'
        return f"{field_text(feed.name)} attempt {number} has no log of rank {asked.rank} yet: {those}"
    there = f"the last is rank {max(others)}" if others else "all it wrote is in one log"
    return f"{field_text(feed.name)} attempt {number} has no rank {asked.rank}: {there}"


def _open(place: Place, row: TaskRow, number: int, feed: Feed, asked: _Asked) -> bool:
    if not feed.open(number, asked.lines):
        if number == row.attempt and row.state == "starting":
            if not (asked.follow and row.pending):  # which is told where the log is followed
                say(f"{field_text(row.name)} {waits_text(row)}")
        else:
            say(_missing(feed, number, asked, starts=number == row.attempt and row.state in ACTIVE))
        return False
    size = feed.drain()
    if not asked.follow:
        feed.end()
    over = number < row.attempt or row.state not in ACTIVE
    if over and not size and asked.lines and not asked.err and feed.has_errors(number):
        name = field_text(row.name)
        rank = f" --rank {asked.rank}" if asked.rank else ""
        place.say(f"{name} wrote nothing to standard output; `gpudeck logs {name}{rank} --err` shows standard error")
    return True
