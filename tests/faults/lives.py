"""Engines as the real command in processes of their own, one after another over one folder."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.decks import PATIENCE_S, Event, caller_environment
from tests.fakes import forked
from tests.fakes.forked import Forked


@dataclass
class Life:
    """One engine, from its start to its end."""

    process: Forked
    out: Path
    err: Path
    terminal: Terminal | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def events(self) -> list[Event]:
        """The JSON lines so far."""
        if not self.out.exists():
            return []
        lines = self.out.read_text(errors="replace").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]

    def ended(self, task: str) -> list[Event]:
        return [event for event in self.events() if event["event"] == "task_ended" and event["task"] == task]

    def rows(self) -> dict[str, Event]:
        return {event["task"]: event for event in self.events() if event["event"] == "task_result"}

    def notes(self) -> str:
        return "\n".join(event["text"] for event in self.events() if event["event"] == "note")

    def said(self) -> str:
        """What it said on stderr."""
        return self.err.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.finish()

    def finish(self) -> int:
        """Wait for its end; returns its code."""
        code = self.process.wait(PATIENCE_S)
        if self.terminal is not None:
            self.terminal.close()
        return code

    @property
    def over(self) -> bool:
        return self.process.poll() is not None


class Terminal:
    """A terminal whose output goes to a file, until it is closed."""

    def __init__(self, copy: Path) -> None:
        self._master, slave = pty.openpty()
        self.path = os.ttyname(slave)
        self.slave = slave
        self._copy = copy
        self._closing, self._close = os.pipe()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def close(self) -> None:
        """As when a window is closed: HUP to those on it, EIO from then on. Idempotent."""
        if self._reader.is_alive():
            os.write(self._close, b"x")
            self._reader.join(PATIENCE_S)
            for fd in (self._master, self.slave, self._closing, self._close):
                os.close(fd)

    def _read(self) -> None:
        with self._copy.open("ab", buffering=0) as copy:
            while True:
                ready, _, _ = select.select([self._master, self._closing], [], [])
                if self._closing in ready:
                    return
                copy.write(os.read(self._master, 65536).replace(b"\r\n", b"\n"))


@dataclass
class Lives:
    """All engines over one folder."""

    folder: Path
    env: dict[str, str] = field(default_factory=caller_environment)
    all: list[Life] = field(default_factory=list[Life])
    _starts: int = 0

    def __post_init__(self) -> None:
        """A box of its own: what other decks of this machine have is not in its way."""
        self.env.setdefault("GPUDECK_LOCK_DIR", f"{self.folder}.locks")

    @property
    def last(self) -> Life:
        return self.all[-1]

    def start(self, *options: str, on_terminal: bool = False, up_s: float = 0.0, **seams: Any) -> Life:
        """Start the deck, or go on with it; *up_s*: on a box that has been up for so long."""
        self._starts += 1
        number = self._starts
        out, err = self.folder / f"out.{number}", self.folder / f"err.{number}"
        out.touch()
        err.touch()
        terminal = Terminal(out) if on_terminal else None
        words = ["--headless", "tasks.toml", "--json", "--check-interval", "0", *options]
        with out.open("ab") as to_out, err.open("ab") as to_err, open(os.devnull, "rb") as null:
            if terminal is not None:
                fds, tty = [terminal.slave] * 3, terminal.path
            else:
                fds, tty = [null.fileno(), to_out.fileno(), to_err.fileno()], ""
            process = forked.fork(
                words, cwd=self.folder, env=self.env, fds=fds, tty=tty, up_s=up_s, seams={**forked.QUICK, **seams}
            )
        self.all.append(Life(process, out, err, terminal))
        return self.last

    def reported(self) -> list[Event]:
        """Everything that any of them said."""
        return [event for life in self.all for event in life.events()]

    def close(self) -> None:
        for life in self.all:
            life.signal(signal.SIGCONT)
            life.kill()
