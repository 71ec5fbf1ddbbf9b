"""Decks and programs for the benchmarks of the screen."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator, Mapping

from common import GPUDECK, disk, folder_on, write_deck
from terminal import SIZE, Terminal

from gpudeck.engine.client.attach import attach
from gpudeck.engine.client.connection import Connection
from gpudeck.engine.taskfile.options import RunOptions

FIRST = 10_000
"""The number of the first task: all names are of one length."""
GPUS = 8
_SMALLEST = """
from textual.app import App
from textual.widgets import Static

class Smallest(App):
    BINDINGS = [("q", "quit", ""), ("j,k", "press", "")]
    presses = 0
    def compose(self):
        yield Static("train-10000")
    def action_press(self):
        self.presses += 1
        self.query_one(Static).update(f"pressed-{self.presses}.")

Smallest().run()
"""
_DECK = """
[deck]
gpus = "{gpus}"
[[task]]
name = "train-{{n}}"
command = {command}
matrix.n = [{numbers}]
"""


def name(number: int) -> str:
    """Of the task in that line of the table, from 0."""
    return f"train-{FIRST + number}"


@contextlib.contextmanager
def deck(count: int, command: str, *, gpus: str = f"sim:{GPUS}") -> Generator[str]:
    """A folder with a task file; its engine, if one was started, is stopped at the end. *command* is TOML."""
    with folder_on(disk()) as folder:
        numbers = ",".join(map(str, range(FIRST, FIRST + count)))
        write_deck(folder, _DECK.format(gpus=gpus, numbers=numbers, command=command))
        try:
            yield folder
        finally:
            connection = attach(f"{folder}/tasks.toml", RunOptions())
            if connection is not None:
                with connection:
                    connection.request("stop", tasks=True, now=True)
            while attach(f"{folder}/tasks.toml", RunOptions()) is not None:
                time.sleep(0.05)


def client(folder: str) -> Connection:
    """Of the engine that a screen has started."""
    connection = attach(f"{folder}/tasks.toml", RunOptions())
    assert connection is not None
    return connection


def screen(folder: str, *, size: tuple[int, int] = SIZE, env: Mapping[str, str] = os.environ) -> Terminal:
    return Terminal(GPUDECK, folder, env, size=size)


def smallest(folder: str) -> Terminal:
    """The smallest Textual app there is. It writes "pressed-1." at the first `j` or `k`, "pressed-2." at the next."""
    return Terminal((sys.executable, "-c", _SMALLEST), folder, os.environ)


def first_picture(terminal: Terminal, mark: str) -> tuple[float, float]:
    """Milliseconds until *mark* is drawn, and to leave."""
    shown_ms = (terminal.until(mark) - terminal.began) * 1e3
    terminal.drain(0.3)
    return shown_ms, terminal.quit() * 1e3
