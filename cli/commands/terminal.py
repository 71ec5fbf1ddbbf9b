"""Sitting at the terminal of a command that `gpudeck run -i` runs."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Generator
from typing import Literal

from ...engine.adapters.processes.terminal import KEYS, folder_of, frames, sit_down, size_frame
from ...engine.errors import UsageError

DETACH = b"\x1c"
"""Ctrl-\\."""
_BLOCK = 65536

How = Literal["ended", "left", "hung up", "asked"]
"""The command ended (or somebody else sat down), the user left, the terminal is gone, a signal came."""


def has_terminal(state: str, task: str) -> bool:
    return os.path.isdir(folder_of(state, task))


def refuse_no_terminal() -> None:
    """Raises UsageError."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("there is no terminal here to pass on")


def sit_at(state: str, task: str, *, asked: int | None = None) -> How:
    """Pass keys to a task's terminal and what it shows to ours, until one of both ends it. *asked*: a descriptor that
    can be read when a signal has come. Raises OSError where there is no such terminal."""
    with sit_down(state, task) as held, _raw(), _resizes() as resized:
        held.sendall(size_frame(*_size()))
        while True:
            ready, _, _ = select.select([held, 0, resized, *([] if asked is None else [asked])], [], [])
            if asked is not None and asked in ready:
                return "asked"
            if resized in ready:
                os.read(resized, 64)
                held.sendall(size_frame(*_size()))
            if held in ready:
                try:
                    shown = held.recv(_BLOCK)
                except OSError:
                    shown = b""
                if not shown:
                    return "ended"
                while shown:
                    shown = shown[os.write(1, shown) :]
            if 0 in ready:
                try:
                    keys = os.read(0, _BLOCK)
                except OSError:
                    keys = b""
                if not keys:
                    return "hung up"
                before, left, _ = keys.partition(DETACH)
                with contextlib.suppress(OSError):  # it ends: that is told next
                    for frame in frames(KEYS, before):
                        held.sendall(frame)
                if left:
                    os.write(1, b"\r\n")  # away from what stands in its line
                    return "left"


def _size() -> tuple[int, int]:
    try:
        found = os.get_terminal_size(1)
    except OSError:
        return 24, 80
    return found.lines, found.columns


@contextlib.contextmanager
def _raw() -> Generator[None]:
    """Each key goes through as it is, Ctrl-C too."""
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is for the command
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizes() -> Generator[int]:
    """Can be read when the window has another size."""
    end, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def resized(_number: int, _frame: object) -> None:
        os.write(told, b"w")

    before = signal.signal(signal.SIGWINCH, resized)
    try:
        yield end
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(end)
        os.close(told)
