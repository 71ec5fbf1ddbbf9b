"""What goes to a terminal that is slow, stuck or gone."""

from __future__ import annotations

import os
import pty
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.inside.tui import Output

PATIENCE_S = 10.0


@dataclass
class Line:
    """Both ends of a terminal's line, raw."""

    master: int
    slave: int
    drained: threading.Event = field(default_factory=threading.Event)
    lost: threading.Event = field(default_factory=threading.Event)

    def output(self) -> Output:
        return Output(self.slave, drained=self.drained.set, lost=self.lost.set)

    def read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            found += os.read(self.master, count - len(found))
        return found


@pytest.fixture
def line() -> Iterator[Line]:
    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    line = Line(master, slave)
    yield line
    for fd in (line.slave, line.master):
        if fd >= 0:
            os.close(fd)


def test_everything_arrives_in_order(line: Line) -> None:
    output = line.output()
    pieces = [b"%d," % number for number in range(3000)]
    for piece in pieces:
        output.write(piece)
    whole = b"".join(pieces)
    assert line.read(len(whole)) == whole
    assert line.drained.wait(PATIENCE_S)
    output.close(PATIENCE_S)


def test_what_is_written_before_the_end_still_arrives(line: Line) -> None:
    output = line.output()
    output.write(b"last words")
    output.close(PATIENCE_S)
    output.write(b"and more")
    assert line.read(10) == b"last words"
    assert output.backlog_bytes == 0


def test_a_terminal_that_takes_nothing_holds_up_nobody(line: Line) -> None:
    output = line.output()
    output.write(b"x" * 1_000_000)
    assert output.backlog_bytes > 900_000
    output.close(0.01)
    assert not line.lost.is_set()


def test_a_terminal_that_goes_away_is_told_and_takes_what_waits_for_it_along(line: Line) -> None:
    output = line.output()
    output.write(b"x" * 1_000_000)
    os.close(line.master)
    line.master = -1
    assert line.lost.wait(PATIENCE_S)
    assert output.backlog_bytes == 0
    output.write(b"more")
    assert output.backlog_bytes == 0
    output.close(PATIENCE_S)


def test_a_terminal_that_others_made_non_blocking_gets_everything(line: Line) -> None:
    os.set_blocking(line.slave, False)
    output = line.output()
    output.write(b"x" * 100_000)
    assert len(line.read(100_000)) == 100_000
    output.close(PATIENCE_S)
