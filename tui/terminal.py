"""The user's terminal, as far as Textual leaves it to its apps: its end, signals, ctrl+z, programs that get it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from types import FrameType
from typing import Any

from rich.cells import cell_len
from rich.segment import Segment
from textual.app import App, SuspendNotSupported
from textual.color import Color
from textual.filter import LineFilter

from ..engine.logs.files import size_of
from ..engine.logs.printable import last_frame

_KNOWN = {
    "●": "*", "◔": ">", "◕": "<", "✗": "x", "↻": "~", "⊘": "/", "–": "-", "○": "o", "◌": ".", "✓": "+",
    "✂": "8",
    "‖": "h", "≠": "#", "↺": "%", "∅": "0", "∉": "\\", "◆": "#", "▲": "^", "▼": "v", "↑": "^", "↓": "v", "←": "<",
    "→": ">", "…": "~", "·": "-", "×": "x", "°": " ", "█": "#", "▌": ">", "▐": "|", "▎": "|", "▏": "|", "▁": "_",
    "▂": "_", "▃": ".", "▄": "=", "▅": "=", "▆": "#", "▇": "#", "▀": "^", "░": ".", "▒": ":", "▓": "#",
    "╳": "x", "╌": ":", "╍": ">",
    "‘": "'", "’": "'", "“": '"', "”": '"', "—": "-", "▶": ">", "▸": ">", "±": "+",
}  # fmt: skip
_HORIZONTAL = frozenset("─╴╶╼╾╌┄┈")
_HEAVY = frozenset("━═╸╺╍┅┉")
_VERTICAL = frozenset("│┃║╵╷╹╻╎╏┆┇┊┋╽╿")
_SHADES = " ..::+##@"
"""Of a braille cell, by how many of its eight dots are set."""
_DUMB = ("ansi", "linux", "vt")
"""Terminals, by how their names begin, that have no such glyphs, whatever the locale says."""


class _Ascii(dict[int, str]):
    """For str.translate; looks at a character once."""

    def __missing__(self, code: int) -> str:
        found = self[code] = chr(code) if code < 128 else _plain(chr(code))
        return found


_ASCII = _Ascii()


def plain(text: str) -> str:
    """*text* in ASCII, in as many cells."""
    return text if text.isascii() else text.translate(_ASCII)


class PlainGlyphs(LineFilter):
    """All that is drawn, in ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [Segment(plain(text), style, control) for text, style, control in segments]


def takes_glyphs(environ: Mapping[str, str]) -> bool:
    """Whether the terminal shows more than ASCII.

    *environ*: as the process got it: Python puts a locale of its own into os.environ where it finds C. No locale at all
    is what containers have, on terminals that are up to date; tmux and screen then show no glyph.
    """
    if environ.get("TERM", "").startswith(_DUMB):
        return False
    named = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environ.get(name))), "")
    if not named:
        return not (environ.get("TMUX") or environ.get("STY"))
    return named.lower().replace("-", "").partition("@")[0].endswith("utf8")


def _plain(char: str) -> str:
    if char in _KNOWN:
        return _KNOWN[char]
    if 0x2800 <= ord(char) <= 0x28FF:
        return _SHADES[(ord(char) - 0x2800).bit_count()]
    if char in _HORIZONTAL:
        return "-"
    if char in _HEAVY:
        return "="
    if char in _VERTICAL:
        return "|"
    if 0x2500 <= ord(char) <= 0x257F:
        return "+"
    if 0x2580 <= ord(char) <= 0x259F:
        return "#"
    width = cell_len(char)
    base = unicodedata.normalize("NFKD", char)[0]
    return base if base.isascii() and base.isprintable() and width == 1 else "?" * width


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
        threading.excepthook = self._end_with_writer
        threading.Thread(target=self._end_with_it, name="gpudeck-terminal", daemon=True).start()

    @staticmethod
    def _end_with_writer(failed: threading.ExceptHookArgs) -> None:
        """Textual's thread that writes may be told of the terminal's end first, by EIO."""
        if isinstance(failed.exc_value, OSError) and failed.exc_value.errno == errno.EIO:
            os._exit(128 + signal.SIGHUP)
        threading.__excepthook__(failed)

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


def pager_of(env: Mapping[str, str]) -> list[str]:
    """The user's pager with its options; `less -R` where none is set, or what is set cannot be understood."""
    return _words(env.get("PAGER", "")) or ["less", "-R"]


def editor_of(env: Mapping[str, str]) -> list[str]:
    """$VISUAL, $EDITOR or `vi`, with their options."""
    return _words(env.get("VISUAL", "")) or _words(env.get("EDITOR", "")) or ["vi"]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def with_content(paths: Sequence[str]) -> list[str]:
    """Of several files those that are not empty; one of them at least."""
    if len(paths) < 2:
        return list(paths)
    return [path for path in paths if size_of(path)] or list(paths[:1])


_COPIED_BYTES = 256 * 1024 * 1024
"""A larger log is shown as it is: a copy would take seconds."""


@contextlib.contextmanager
def logs_for_pager(paths: Sequence[str]) -> Generator[list[str]]:
    """The same files; in place of those with progress bars, which a pager shows as one endless line of ^M, copies that
    have the last frame of each line."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="gpudeck-")
    except OSError:
        yield list(paths)
        return
    with folder as name:
        yield [_with_last_frames(path, name) for path in paths]


def _with_last_frames(path: str, folder: str) -> str:
    try:
        if os.path.getsize(path) > _COPIED_BYTES:
            return path
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as log:
            text = log.read()
        if "\r" not in text:
            return path
        copy = os.path.join(folder, os.path.basename(path))
        with open(copy, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.write("\n".join(last_frame(line) for line in text.split("\n")))
    except OSError:  # the pager tells of it
        return path
    return copy


def run_outside(app: App[Any], command: Sequence[str]) -> str:
    """Run *command* in the foreground until it ends. Returns "", or why it could not be run."""
    try:
        with app.suspend():
            return _run(command)
    except SuspendNotSupported:
        return f"{command[0]}: this terminal cannot be lent to another program"


def _run(command: Sequence[str]) -> str:
    """ctrl+c is the program's: a handler of ours keeps it from ending us, and is not inherited."""

    def ignore(_signal: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGINT, ignore)
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"
    finally:
        signal.signal(signal.SIGINT, before)
    return ""
