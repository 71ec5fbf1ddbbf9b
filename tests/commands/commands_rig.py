"""Decks with detached engines, the commands of users, a terminal to type them on; no engine outlives a test."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from gpudeck.engine.adapters.state.lock import Holder, held_by
from gpudeck.engine.client.attach import attach
from gpudeck.engine.taskfile.options import RunOptions
from tests.e2e.decks import PATIENCE_S, Deck, Gate, Ran, lives, until
from tests.fakes import forked

MIXED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "good"
    command = "echo fine"
    [[task]]
    name = "bad"
    command = "echo oops >&2; exit 3"
    [[task]]
    name = "behind"
    needs = ["bad"]
    command = "true"
"""
GATED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "wait-{i}"
    matrix.i = [1, 2, 3]
    command = "echo begin {i}; read _ <gate; echo end {i}"
    tags = ["slow"]
"""


class Commanded(Deck):
    """A deck whose engine runs detached."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.followers: list[Following] = []

    def holder(self, stem: str = "tasks") -> Holder | None:
        """Who has the deck's lock."""
        return held_by(str(self.folder / ".gpudeck" / stem))

    def engine_pid(self) -> int:
        holder = self.holder()
        assert holder is not None, "no engine runs"
        return holder.pid

    def kill_engine(self) -> int:
        """kill -9, and wait until it is gone. Returns its pid."""
        holder = self.holder()
        (pid,) = self.engines_alive() if holder is None else [holder.pid]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not lives(pid))
        return pid

    def rows(self, *selectors: str) -> dict[str, dict[str, Any]]:
        """`gpudeck ls --json` by name."""
        done = self.command("ls", "--json", *selectors)
        assert done.code == 0, done.err
        return {row["name"]: row for row in json.loads(done.out)}

    def state(self, name: str) -> str:
        return self.rows(name)[name]["state"]

    def until_state(self, name: str, *states: str) -> None:
        """As the engine tells it; where none runs, as `gpudeck ls` does."""
        connection = attach(str(self.folder / "tasks.toml"), RunOptions())
        if connection is None:
            until(lambda: self.state(name) in states)
            return
        with connection:
            connection.wait_for_picture()
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                assert connection.picture is not None
                if connection.picture.by_name()[name].state in states:
                    return
                next(connection.messages(0.5), None)
        raise AssertionError(f"{name} never was {' or '.join(states)}")

    def go(self) -> Ran:
        """Start an engine and do nothing else."""
        return self.command("start")

    def go_gated(self) -> Gate:
        """Start an engine on `GATED`."""
        self.write(GATED)
        gate = self.gate()
        assert self.go().code == 0
        return gate

    def shell(self, script: str) -> Ran:
        """A line of shell in the deck's folder, whose gpudeck is this one."""
        folder = Path(f"{self.folder}.bin") if self.forks(self.env) else Path(self.prefix[0]).parent
        if self.forks(self.env):
            forked.write_command(folder / "gpudeck")
        env = {**self.env, "PATH": f"{folder}:{self.env['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=PATIENCE_S, check=False, text=True,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    def follow(self, *words: str) -> Following:
        """A command that goes on, its output in files."""
        self.followers.append(Following(self, *words))
        return self.followers[-1]

    def close(self) -> None:
        """End the engine of a test, whatever became of it, and all that it started."""
        for follower in self.followers:
            follower.close()
        for pid in self.engines_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not lives(pid))
        super().close()

    def engines_alive(self) -> list[int]:
        """Processes of this deck's engine, also such that have not got the lock yet."""
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and self._is_engine(int(name))]

    def _is_engine(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"\0engine\0" + os.fsencode(self.folder) in words:
                return lives(pid)
            if b"\0tests.fakes.fork_server\0" not in words or os.getsid(pid) == pid:
                return False  # a command leads a session, an engine has left its leader
            return f"{os.readlink(f'/proc/{pid}/cwd')}/".startswith(f"{self.folder}/")
        except OSError:
            return False


class Following:
    """A command that goes on while the test does; its output is in files."""

    def __init__(self, deck: Deck, *words: str) -> None:
        number = len(list(deck.folder.glob("out-*")))
        self.out, self.err = deck.folder / f"out-{number}", deck.folder / f"err-{number}"
        self.process: subprocess.Popen[bytes] | forked.Forked
        with self.out.open("wb") as out, self.err.open("wb") as err, open(os.devnull, "rb") as null:
            if deck.forks(deck.env):
                fds = [null.fileno(), out.fileno(), err.fileno()]
                self.process = forked.fork(words, cwd=deck.folder, env=deck.env, fds=fds)
            else:
                self.process = subprocess.Popen(
                    [*deck.prefix, *words], cwd=deck.folder, env=deck.env, stdin=null, stdout=out, stderr=err
                )

    def until(self, text: str) -> None:
        """It has printed *text* on either stream."""
        until(lambda: text in self.said() or self.process.poll() is not None)
        assert text in self.said(), self.said()

    def said(self) -> str:
        return self.out.read_text(errors="replace") + self.err.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> Ran:
        code = self.process.wait(PATIENCE_S)
        return Ran(code, self.out.read_text(errors="replace"), self.err.read_text(errors="replace"))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Typed:
    """A command on a terminal of its own."""

    def __init__(self, deck: Deck, words: Sequence[str], *, columns: int = 100) -> None:
        self._master, slave = pty.openpty()
        self.resize(30, columns)
        env = {**deck.env, "TERM": "xterm-256color"}
        env.pop("NO_COLOR", None)
        self.process: subprocess.Popen[bytes] | forked.Forked
        if deck.forks(env):
            self.process = forked.fork(words, cwd=deck.folder, env=env, fds=[slave] * 3, tty=os.ttyname(slave))
        else:
            self.process = subprocess.Popen(
                ["setsid", "--ctty", "--wait", *deck.prefix, *words],
                cwd=deck.folder, env=env, stdin=slave, stdout=slave, stderr=slave,
            )  # fmt: skip
        os.close(slave)
        self._raw = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def shown(self) -> str:
        return self._raw.decode(errors="replace")

    def until(self, text: str) -> None:
        until(lambda: text in self.shown or self._over())
        assert text in self.shown, self.shown

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._master)
        self._master = -1

    def finish(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self._master)

    def _over(self) -> bool:
        return not self._reader.is_alive()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._master, 65536):
                self._raw += data


@contextlib.contextmanager
def typed(deck: Deck, *words: str, columns: int = 100) -> Generator[Typed]:
    terminal = Typed(deck, words, columns=columns)
    try:
        yield terminal
    finally:
        terminal.close()
