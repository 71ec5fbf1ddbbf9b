"""Programs that get the terminal for a while, on a real pty."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.inside.tui import editor_of, logs_for_pager, pager_of

APP = """
import sys
from textual.app import App
from gpudeck.tui.terminal import run_outside
class Lender(App[str]):
    def on_key(self, event):
        if event.key == "v":
            problem = run_outside(self, sys.argv[1:])
            self.exit(f"back: {problem or 'all right'}")
    def on_mount(self):
        self.call_after_refresh(lambda: print(end=""))
print(Lender().run())
"""
OUTSIDE = "import threading; print('outside is', 'ready', flush=True); threading.Event().wait()"
"""No shell: between two commands that misses a ctrl+c."""
_PATIENCE_S = 30.0


class Terminal:
    """A program on a pty of its own, whose keys are ours."""

    def __init__(self, *command: str) -> None:
        self.master, slave = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", APP, *command],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=_own_terminal,
            env={**os.environ, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)

    def until(self, text: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2000:]
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
                except OSError:
                    assert text in self.seen, self.seen[-2000:]

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)


def _own_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize(
    ("env", "command"),
    [
        ({}, ["less", "-R"]),
        ({"PAGER": ""}, ["less", "-R"]),
        ({"PAGER": "most -w"}, ["most", "-w"]),
        ({"PAGER": "bad 'quote"}, ["less", "-R"]),
    ],
)
def test_the_users_pager_goes_before_less(env: dict[str, str], command: list[str]) -> None:
    assert pager_of(env) == command


@pytest.mark.parametrize(
    ("env", "command"),
    [
        ({}, ["vi"]),
        ({"EDITOR": "nano -w"}, ["nano", "-w"]),
        ({"EDITOR": "nano", "VISUAL": "code --wait"}, ["code", "--wait"]),
        ({"EDITOR": "'", "VISUAL": ""}, ["vi"]),
    ],
)
def test_the_users_editor_goes_before_vi(env: dict[str, str], command: list[str]) -> None:
    assert editor_of(env) == command


def test_a_pager_gets_of_a_progress_bar_what_a_terminal_would_show_last(tmp_path: Path) -> None:
    log, bars = tmp_path / "attempt-1.out", tmp_path / "attempt-1.err"
    log.write_text("epoch 1\n")
    bars.write_bytes(b"begin\n 10%\r 50%\r100%\nend\xff\n 3%\r 4%\r")
    with logs_for_pager([str(log), str(bars)]) as given:
        assert given[0] == str(log)
        assert Path(given[1]).name == bars.name
        assert Path(given[1]).read_bytes() == b"begin\n100%\nend\xff\n 4%"
    assert not os.path.exists(given[1])


@pytest.mark.terminal
def test_the_program_has_the_terminal_and_ctrl_c_ends_only_it() -> None:
    terminal = Terminal(sys.executable, "-c", OUTSIDE)
    try:
        terminal.until("\x1b[?1049h")
        terminal.type(b"v")
        terminal.until("outside is ready")
        terminal.type(b"\x03")
        terminal.until("back: all right")
    finally:
        terminal.close()


@pytest.mark.terminal
def test_a_program_that_is_not_there_is_said() -> None:
    terminal = Terminal("no-such-pager")
    try:
        terminal.until("\x1b[?1049h")
        terminal.type(b"v")
        terminal.until("no-such-pager: No such file or directory")
    finally:
        terminal.close()
