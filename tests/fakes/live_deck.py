"""A deck in a folder, its detached engine, and clients of it; nothing of a test survives it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.adapters.state.lock import held_by
from gpudeck.engine.client.attach import attach
from gpudeck.engine.client.connection import Connection
from gpudeck.engine.errors import DeckError
from gpudeck.engine.protocol.wire import TaskRow
from gpudeck.engine.taskfile.options import RunOptions
from tests.fakes import forked

DEADLINE_S = 30.0


class LiveDeck:
    """Starts engines as processes of their own, as clients do, and talks to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engines: list[subprocess.Popen[str] | forked.Forked] = []
        self.env: dict[str, str] = {**os.environ}
        self.seams: Mapping[str, Any] = forked.QUICK
        """Of its engines: `engine_seams`."""

    @property
    def path(self) -> str:
        return str(self.folder / "tasks.toml")

    @property
    def state(self) -> Path:
        return self.folder / ".gpudeck" / "tasks"

    def write(self, text: str) -> None:
        (self.folder / "tasks.toml").write_text(text)

    def tune(self, module: str, **constants: Any) -> None:
        """From now on engines have such constants of a module below gpudeck."""
        self.seams = forked.tuned(self.seams, module, **constants)

    def start(self, *arguments: str) -> subprocess.Popen[str] | forked.Forked:
        """`gpudeck engine`, in a session of its own; ready when it listens."""
        engine: subprocess.Popen[str] | forked.Forked
        words = ("engine", self.path, *arguments)
        if forked.can_fork(self.env):
            engine = forked.popen(words, cwd=self.folder, env=self.env, merged=True, seams=self.seams)
        else:
            engine = subprocess.Popen(
                (sys.executable, "-m", "gpudeck", *words),
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                text=True,
            )
        self.engines.append(engine)
        self.until(lambda: engine.poll() is not None or self.holder() == engine.pid, "the engine listens")
        return engine

    def holder(self) -> int:
        """Pid of the engine that holds the lock and listens; 0: none."""
        found = held_by(str(self.state))
        return found.pid if found is not None and found.address else 0

    @contextmanager
    def client(self) -> Generator[Connection]:
        connection = attach(self.path, RunOptions())
        assert connection is not None, "no engine runs"
        with connection:
            yield connection

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for a condition outside of the engine."""
        deadline = time.monotonic() + DEADLINE_S
        never = threading.Event()
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            never.wait(0.01)

    def until_rows(self, client: Connection, holds: Callable[[Mapping[str, TaskRow]], object]) -> Mapping[str, TaskRow]:
        """Wait until the rows that a client sees satisfy *holds*."""
        picture = client.wait_for_picture() if client.picture is None else client.picture
        deadline = time.monotonic() + DEADLINE_S
        while not holds(rows := picture.by_name()):
            assert time.monotonic() < deadline, {name: row.state for name, row in rows.items()}
            for _ in client.messages(timeout_s=1.0):
                assert client.picture is not None
                picture = client.picture
                break
        return rows

    def until_states(self, client: Connection, **states: str) -> Mapping[str, TaskRow]:
        return self.until_rows(client, lambda rows: all(rows[name].state == state for name, state in states.items()))

    def facts(self) -> list[str]:
        """Kinds of the facts on disk, in order."""
        with contextlib.closing(sqlite3.connect(f"file:{self.state}/deck.db?mode=ro", uri=True)) as db:
            return [kind for (kind,) in db.execute("SELECT kind FROM facts ORDER BY seq")]

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def close(self) -> None:
        """End every engine and every task of this test."""
        try:
            with self.client() as client:
                client.request("stop", tasks=True, now=True)
        except (AssertionError, DeckError):
            pass
        for engine in self.engines:
            with contextlib.suppress(subprocess.TimeoutExpired):
                engine.wait(5)
            if engine.poll() is None:
                engine.kill()
                engine.wait()
            if engine.stdout:
                engine.stdout.close()
        for process in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def left(self) -> list[int]:
        """Processes that run in this deck's folder."""
        found: list[int] = []
        for pid in proc.everyone():
            with contextlib.suppress(OSError):
                if pid != os.getpid() and os.readlink(f"/proc/{pid}/cwd") == str(self.folder):
                    found.append(pid)
        return found


@contextmanager
def live_deck(folder: Path, text: str) -> Generator[LiveDeck]:
    deck = LiveDeck(folder)
    deck.write(text)
    try:
        yield deck
    finally:
        deck.close()
