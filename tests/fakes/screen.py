"""A terminal for tests: a real pty, read by a thread, and a screen that understands what the live display sends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import threading
from typing import TextIO

_TOKEN = re.compile(r"\x1b\[(?P<args>[0-9;?]*)(?P<final>[A-Za-z])|(?P<text>[^\x1b\r\n]+)|(?P<char>[\r\n\x1b])")


class PtyScreen:
    """`stream` is the terminal as a program sees it; close ends the reading."""

    def __init__(self, columns: int = 80, rows: int = 24, encoding: str = "utf-8") -> None:
        self._master, slave = pty.openpty()
        self.stream: TextIO = os.fdopen(slave, "w", encoding=encoding)
        self.resize(columns, rows)
        self._received = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.stream.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def raw(self) -> str:
        return bytes(self._received).decode("utf-8", "replace")

    @property
    def lines(self) -> list[str]:
        """All that stands on screen and scrollback, without folding."""
        return lay_out(self.raw)

    def hang_up(self) -> None:
        """The emulator dies: from now on the program's writes fail with EIO."""
        with contextlib.suppress(OSError):
            os.close(self._master)

    def close(self) -> None:
        self.stream.close()
        self._thread.join(5)
        self.hang_up()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self._received += data


def lay_out(raw: str) -> list[str]:
    """The lines that a terminal of endless width and height shows. Refuses sequences that it does not know."""
    lines, row, column = [""], 0, 0
    for token in _TOKEN.finditer(raw):
        if text := token["text"]:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
        elif token["char"] == "\r":
            column = 0
        elif token["char"] == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif token["final"] == "A":
            row = max(0, row - int(token["args"] or 1))
        elif token["final"] == "J":
            lines = [*lines[:row], lines[row][:column]]
        elif token["final"] != "m":
            raise AssertionError(f"unexpected sequence {token[0]!r}")
    return lines
