"""What really reaches a terminal while a hostile log is read."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.fakes.hostile_logs import hostile_file

pytestmark = pytest.mark.terminal

_SCRIPT = """
import sys
from textual.app import App
from gpudeck.tui.logs.source import LogSource
from gpudeck.tui.widgets.log.view import LogView

class Small(App):
    CSS_PATH = sys.argv[2]
    BINDINGS = [("q", "quit", "")]
    def compose(self):
        yield LogView()
    def on_mount(self):
        view = self.query_one(LogView)
        view.show(LogSource("t", 1, (1,), (("stdout", sys.argv[1]),), title="last words"))
        view.focus()

Small().run()
"""
STYLES = Path(__file__).parents[2] / "tui" / "styles" / "log_view.tcss"
PAYLOADS = (
    b"]52;",
    b"]0;",
    b"]4;1",
    b"]8;;",
    b"\x1bP",
    b"\x1b_G",
    b"\x1bc",
    b"\x1b[3J",
    b"\x1b[200~",
    b"\x9b2J",
    b"\x1b(0",
    b"\x0e",
    b"\0",
)
_PATIENCE_S = 30.0


def read_until(fd: int, words: bytes, received: bytearray) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while words not in received:
        rest_s = max(0.0, deadline - time.monotonic())
        assert select.select([fd], [], [], rest_s)[0], f"{words!r} never came, but {bytes(received[-2000:])!r}"
        received += os.read(fd, 65536)


def test_nothing_of_a_hostile_log_reaches_a_real_terminal(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(hostile_file() + b"these are the last words of it\n")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    command = (sys.executable, "-P", "-c", _SCRIPT, str(path), str(STYLES))
    app = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True)
    os.close(slave)
    received = bytearray()
    try:
        read_until(master, b"the last words of it", received)
        os.write(master, b"b" * 4 + b"g")
        read_until(master, b"[@click=app.quit]", received)
        os.write(master, b"wq")
        assert app.wait(_PATIENCE_S) == 0
    finally:
        app.kill()
        app.wait()
        os.close(master)
    assert [payload for payload in PAYLOADS if payload in received] == []
