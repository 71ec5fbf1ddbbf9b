"""The terminal that the screen is on: slow, gone, suspended or asked to end by a signal, and never waited for."""

from __future__ import annotations

import asyncio
import codecs
import concurrent.futures
import contextlib
import os
import select
import signal
import termios
import threading
import time
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.message import Message
from textual.screen import Screen

from .output import Output
from .plain_glyphs import plain, takes_glyphs

STDOUT = 1
"""Standard error may go elsewhere: `gpudeck 2>errors`."""
BEHIND_BYTES = 2048
"""A terminal that has so much before it gets no more until it has taken it all: changes meanwhile are drawn once."""
_FAREWELL_S = 0.25
"""A terminal that takes nothing is left as it is after this time."""
_LAST_S = 3.0
"""Whoever was told to end is gone after this time."""
_TICK_S = 0.1
"""An escape key is told from an escape sequence after about this time."""
_SETTLE_S = 1.0
"""A key is not waited for longer."""
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class MustLeave(Message):
    """The terminal is gone (SIGHUP), or a signal has asked the screen to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Terminal(LinuxDriver):
    """Textual's driver, but for what it takes for granted: a terminal that reads, stays and knows UTF-8."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)  # pyright: ignore[reportUnknownMemberType]
        self._glyphs = takes_glyphs(_environment())
        self._output: Output | None = None
        self._holding = contextlib.ExitStack()
        self._behind = False
        for number in _ENDING:
            signal.signal(number, self._told_to_end)

    # -- out ----------------------------------------------------------------------------------------------------------

    def start_application_mode(self) -> None:
        if self._output is None:
            self._output = Output(
                STDOUT,
                drained=lambda: self._later(self._caught_up),
                lost=lambda: self._later(self._leave, signal.SIGHUP),
            )
        super().start_application_mode()

    def write(self, data: str) -> None:
        """Returns at once."""
        output = self._output
        if output is not None:
            output.write((data if self._glyphs else plain(data)).encode("utf-8", "replace"))

    def flush(self) -> None:
        """After each frame: the next one waits where this one is not out soon."""
        if self._output is not None and self._output.backlog_bytes > BEHIND_BYTES and not self._behind:
            self._behind = True
            self._holding.enter_context(self._app.batch_update())

    def _caught_up(self) -> None:
        if self._behind and (self._output is None or not self._output.backlog_bytes):
            self._behind = False
            self._holding.close()
            if self._app.is_running and self._app.screen_stack:
                if getattr(self._app, "has_missed", False):
                    self._app.has_missed = False  # pyright: ignore[reportAttributeAccessIssue]
                    self._app.screen.refresh()
                self._app.screen.check_idle()

    def close(self) -> None:
        super().close()
        if self._output is not None:
            self._output.close(_FAREWELL_S)
            self._output = None
            self._caught_up()

    def _get_terminal_size(self) -> tuple[int, int]:
        """As the terminal tells it: COLUMNS and LINES of an environment stay as they were when it is resized."""
        try:
            width, height = os.get_terminal_size(STDOUT)
        except OSError:
            width = height = 0
        return width or 80, height or 24

    # -- in -----------------------------------------------------------------------------------------------------------

    def run_input_thread(self) -> None:
        """Keys and the mouse, until the screen or the terminal ends."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        terminal = select.poll()
        terminal.register(self.fileno, select.POLLIN)
        while not self.exit_event.is_set():
            if terminal.poll(_TICK_S * 1000):
                data = self._read()
                if not data:
                    self._later(self._leave, signal.SIGHUP)
                    return
                for event in parser.feed(decode(data)):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def send_message(self, message: Message) -> None:
        """A key waits until the one before it has done what it does: of "/r" typed ahead, r would go to the table."""
        if not isinstance(message, Key):
            super().send_message(message)
            return
        pressed = asyncio.run_coroutine_threadsafe(self._press(message), self._loop)
        given_up = time.monotonic() + _SETTLE_S
        while not self.exit_event.is_set() and time.monotonic() < given_up:
            if concurrent.futures.wait((pressed,), _TICK_S / 5).done:
                return
        pressed.cancel()

    async def _press(self, key: Key) -> None:
        """It goes from the app to what has the focus, and from there up until somebody takes it. So does what that one
        tells in turn."""
        app = self._app
        focused = app.focused or (app.screen if app.screen_stack else app)
        app.post_message(key)
        way_up = [*focused.ancestors_with_self, app]
        for each in (app, *way_up, *way_up):
            passed = asyncio.Event()
            if each.is_running and each.call_later(passed.set):
                await passed.wait()
        while app.is_running and app.screen_stack and not _takes_keys(app.screen):
            await asyncio.sleep(_TICK_S / 20)

    def _read(self) -> bytes:
        """b"": the terminal is gone."""
        try:
            return os.read(self.fileno, 4096)
        except OSError:
            return b""

    # -- signals ------------------------------------------------------------------------------------------------------

    def _told_to_end(self, number: int, _frame: object) -> None:
        """In order at first; at once when it comes again, or when that takes too long."""
        signal.signal(number, signal.SIG_DFL)
        self._later(self._leave, number)

    def _leave(self, number: int) -> None:
        if self._auto_restart:
            last = threading.Timer(_LAST_S, self._end_at_once, (128 + number,))
            last.daemon = True
            last.start()
        self._app.post_message(MustLeave(number))

    def _end_at_once(self, code: int) -> None:
        if self.attrs_before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        os._exit(code)

    def _sigtstp_application(self, *_: object) -> None:
        """Stopped by the kernel's own rules: where nobody could let us go on, it stops nobody."""
        if self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True
        ours = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTSTP, signal.SIGCONT)}
        os.kill(os.getpid(), signal.SIGTSTP)
        for number, handler in ours.items():
            signal.signal(number, handler)
        self._sigcont_application()  # pyright: ignore[reportUnknownMemberType]

    def _later(self, call: Any, *args: Any) -> None:
        """On the screen's thread, from any."""
        if not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # closed just now
                self._loop.call_soon_threadsafe(call, *args)


def _takes_keys(screen: Screen[Any]) -> bool:
    """Not a dialog that has just been asked for, nor a page that is still told what it is about."""
    return screen.is_mounted and getattr(screen, "settled", True)


def _environment() -> dict[str, str]:
    """As it was when the process began."""
    try:
        with open("/proc/self/environ", "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in (pair.partition(b"=") for pair in pairs)}
