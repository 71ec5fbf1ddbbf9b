"""`gpudeck run` in a folder: on simulated GPUs, in a shell of one's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from gpudeck.engine.client.runs_home import file_in
from tests.commands.commands_rig import Commanded
from tests.e2e.decks import PATIENCE_S, Ran, lives, until
from tests.fakes import forked

ONE = ("run", "--gpus", "sim:1")
TWO = ("run", "--gpus", "sim:2")


def runs_of(deck: Commanded) -> dict[str, dict[str, Any]]:
    """`gpudeck ls --runs --json` by name."""
    done = deck.command("ls", "--runs", "--json")
    assert done.code == 0, done.err
    return {row["name"]: row for row in json.loads(done.out)}


def state_of(deck: Commanded, name: str) -> str:
    return runs_of(deck)[name]["state"]


def until_run(deck: Commanded, name: str, *states: str) -> None:
    until(lambda: runs_of(deck).get(name, {}).get("state") in states)


def book_of(deck: Commanded) -> Path:
    """The task file of the runs."""
    return Path(file_in(str(deck.folder)))


def record_of(deck: Commanded, name: str) -> str:
    """attempt-1.json, once it is complete."""
    path = deck.folder / "logs" / "run" / name / "attempt-1.json"
    until(lambda: path.exists() and '"end"' in path.read_text())
    return path.read_text()


def kill_engine(deck: Commanded) -> int:
    """kill -9, and wait until it is gone. Returns its pid."""
    (pid,) = deck.engines_alive()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not lives(pid))
    return pid


class Piped:
    """A `gpudeck run` that goes on while the test does; its output is read as it comes."""

    def __init__(self, deck: Commanded, *words: str, env: dict[str, str] | None = None) -> None:
        number = len(list(deck.folder.glob("piped-*.out")))
        self.out, self.err = (deck.folder / f"piped-{number}.{end}" for end in ("out", "err"))
        env = {**deck.env, **(env or {})}
        self.process: subprocess.Popen[bytes] | forked.Forked
        with self.out.open("wb") as out, self.err.open("wb") as err, open(os.devnull, "rb") as null:
            if deck.forks(env):
                fds = [null.fileno(), out.fileno(), err.fileno()]
                self.process = forked.fork(words, cwd=deck.folder, env=env, fds=fds)
            else:
                self.process = subprocess.Popen(
                    [*deck.prefix, *words], cwd=deck.folder, env=env, stdin=null, stdout=out, stderr=err
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
