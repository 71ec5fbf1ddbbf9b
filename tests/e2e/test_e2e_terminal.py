"""A run on a terminal: the live display, and a terminal that goes away."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, until

pytestmark = pytest.mark.terminal

GATED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "t{i}"
    matrix.i = [0, 1, 2]
    command = '''printf '\\033]0;owned\\007 step {i}/3\\r' ; echo {i} >>ran; read _ <gate'''
"""


class Terminal:
    """A pseudo-terminal with a headless run on it."""

    def __init__(self, deck: Deck, *options: str) -> None:
        self._master, slave = pty.openpty()
        env = {**deck.env, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
        command = ["setsid", "--ctty", *deck.prefix, "--headless", "tasks.toml", *options]
        self.process = subprocess.Popen(command, cwd=deck.folder, env=env, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.shown = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def finish(self) -> int:
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._master)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self._master)
        self._reader.join()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self.shown += data


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def on_terminal(deck: Deck, terminals: list[Terminal], *options: str) -> Terminal:
    terminals.append(Terminal(deck, *options))
    return terminals[-1]


def test_a_run_on_a_terminal_ends_as_elsewhere(deck: Deck, terminals: list[Terminal]) -> None:
    deck.write(GATED)
    deck.gate().let(3)
    terminal = on_terminal(deck, terminals)
    assert terminal.finish() == 0
    assert b"3 succeeded" in terminal.shown


def test_the_live_display_leaves_the_cursor_visible(deck: Deck, terminals: list[Terminal]) -> None:
    deck.write(GATED)
    gate = deck.gate()
    terminal = on_terminal(deck, terminals)
    until(lambda: len(deck.lines("ran")) == 2)
    gate.let(3)
    terminal.finish()
    assert terminal.shown.count(b"\x1b[?25l") <= terminal.shown.count(b"\x1b[?25h")


def test_nothing_that_a_task_writes_commands_the_terminal(deck: Deck, terminals: list[Terminal]) -> None:
    deck.write(GATED)
    deck.gate().let(3)
    terminal = on_terminal(deck, terminals, "-v")
    terminal.finish()
    assert b"\x1b]" not in terminal.shown
    assert b"\x07" not in terminal.shown


def test_ctrl_c_stops_the_tasks_and_exits_with_130(deck: Deck, terminals: list[Terminal]) -> None:
    deck.write(GATED)
    deck.gate()
    terminal = on_terminal(deck, terminals)
    until(lambda: len(deck.lines("ran")) == 2)
    terminal.type(b"\x03")
    assert terminal.finish() == 130
    assert deck.living() == []


def test_a_closed_terminal_stops_nothing(deck: Deck, terminals: list[Terminal]) -> None:
    deck.write(GATED)
    gate = deck.gate()
    terminal = on_terminal(deck, terminals)
    until(lambda: len(deck.lines("ran")) == 2)
    terminal.hang_up()
    until(lambda: "terminal is gone" in deck.text("logs/deck.log"))
    gate.let(3)
    assert terminal.process.wait(60) == 0
    assert len(deck.lines("ran")) == 3


def test_deck_log_has_no_escape_sequences(deck: Deck, terminals: list[Terminal]) -> None:
    deck.write(GATED)
    deck.gate().let(3)
    on_terminal(deck, terminals).finish()
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", Path(deck.folder, "logs/deck.log").read_bytes())
