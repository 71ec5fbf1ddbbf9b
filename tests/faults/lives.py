"""Engines as the real command in processes of their own, one after another over one folder."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpudeck.tests.fakes import engine_zygote
from tests.e2e.decks import PATIENCE_S, Event, caller_environment


class Zygote:
    """Forks engines; see `fakes/engine_zygote.py`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, engine_zygote.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ended: dict[int, int] = {}
        self._pids: list[int] = []
        self._refused = ""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def fork(self, order: Mapping[str, Any]) -> int:
        """Start a command; returns its pid."""
        stdin = self._process.stdin
        assert stdin is not None
        with self._news:
            self._pids.clear()
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()
            self._refused = ""
            assert self._news.wait_for(lambda: self._pids or self._refused, PATIENCE_S), "the zygote forks nothing"
            assert not self._refused, f"an engine cannot be started so here: {self._refused}"
            return self._pids[0]

    def code(self, pid: int) -> int | None:
        """How it ended; negative for a signal; None while it lives."""
        with self._news:
            return self._ended.get(pid)

    def wait(self, pid: int) -> int:
        with self._news:
            assert self._news.wait_for(lambda: pid in self._ended, PATIENCE_S), "the engine does not end"
            return self._ended[pid]

    def close(self) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.close()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._news:
                if "pid" in answer:
                    self._ended.pop(answer["pid"], None)
                    self._pids.append(answer["pid"])
                elif "refused" in answer:
                    self._refused = answer["refused"]
                else:
                    self._ended[answer["ended"]] = answer["code"]
                self._news.notify_all()


@dataclass
class Life:
    """One engine, from its start to its end."""

    zygote: Zygote
    pid: int
    out: Path
    err: Path
    terminal: Terminal | None = None

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
            if self.zygote.code(self.pid) is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.finish()

    def finish(self) -> int:
        """Wait for its end; returns its code."""
        code = self.zygote.wait(self.pid)
        if self.terminal is not None:
            self.terminal.close()
        return code

    @property
    def over(self) -> bool:
        return self.zygote.code(self.pid) is not None


class Terminal:
    """A terminal whose output goes to a file, until it is closed."""

    def __init__(self, copy: Path) -> None:
        self._master, slave = pty.openpty()
        self.path = os.ttyname(slave)
        self._slave = slave
        self._copy = copy
        self._closing, self._close = os.pipe()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def close(self) -> None:
        """As when a window is closed: HUP to those on it, EIO from then on. Idempotent."""
        if self._reader.is_alive():
            os.write(self._close, b"x")
            self._reader.join(PATIENCE_S)
            for fd in (self._master, self._slave, self._closing, self._close):
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

    zygote: Zygote
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
        order = {
            "argv": ["--headless", "tasks.toml", "--json", "--check-interval", "0", *options],
            "cwd": str(self.folder),
            "env": self.env,
            "out": str(out),
            "err": str(err),
            "tty": terminal.path if terminal else "",
            "up_s": up_s,
            "seams": seams,
        }
        self.all.append(Life(self.zygote, self.zygote.fork(order), out, err, terminal))
        return self.last

    def reported(self) -> list[Event]:
        """Everything that any of them said."""
        return [event for life in self.all for event in life.events()]

    def close(self) -> None:
        for life in self.all:
            life.signal(signal.SIGCONT)
            life.kill()
