"""The user's terminal, as far as Textual leaves it to its apps: what it shows, its end, signals, ctrl+z."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable
from types import FrameType

from .drawing.plain_glyphs import takes_glyphs

_PATIENCE_S = 3
"""Whoever was told to end is gone after this time, also where the terminal takes nothing any more."""


class Terminal:
    """Made before Textual takes it over. From then on the process ends with it: nobody is left to tell anything."""

    def __init__(self) -> None:
        self.takes_glyphs = takes_glyphs(_environment())
        self._modes = termios.tcgetattr(sys.stdin)
        sys.__stderr__ = sys.__stdout__  # where Textual draws: `gpudeck 2>errors`
        for name in ("COLUMNS", "LINES"):  # which stay as they were when it is resized
            os.environ.pop(name, None)
        threading.Thread(target=self._end_with_it, name="gpudeck-terminal", daemon=True).start()

    @staticmethod
    def _end_with_it() -> None:
        gone = select.poll()
        gone.register(sys.stdout, 0)
        gone.poll()
        os._exit(128 + signal.SIGHUP)

    def when_told_to_end(self, leave: Callable[[int], None]) -> None:
        """*leave* gets the signal, on the loop that runs; a second signal ends the process at once."""
        loop = asyncio.get_running_loop()

        def told(number: int, _frame: FrameType | None) -> None:
            def end_at_once(_number: int, _frame: FrameType | None) -> None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(sys.stdin, termios.TCSANOW, self._modes)
                os._exit(128 + number)

            signal.signal(number, end_at_once)
            signal.signal(signal.SIGALRM, end_at_once)
            signal.alarm(_PATIENCE_S)
            loop.call_soon_threadsafe(leave, number)

        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, told)

    @staticmethod
    def stop_job() -> None:
        """By the kernel's own rules: where nobody could let us go on, it stops nothing. This process alone: who shares
        its group may have no terminal to go on from."""
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)


def _environment() -> dict[str, str]:
    """As it was when the process began."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in (pair.partition(b"=") for pair in pairs)}
