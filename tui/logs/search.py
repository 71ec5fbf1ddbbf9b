"""A search under way: its process, and a thread that hears it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Literal

from .hits import Told
from .query import Query

Way = Literal["both", "after", "before"]


class Search:
    """*tell* is called on a thread of its own, last with `ended`; not after `cancel`."""

    def __init__(self, path: str, query: Query, origin: int, tell: Callable[[Told], None], way: Way = "both") -> None:
        """*origin*: where a line begins, bytes."""
        self._order = json.dumps({"path": path, "query": asdict(query), "origin": origin, "direction": way})
        self._tell = tell
        self._cancelled = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="log-search", daemon=True).start()

    def cancel(self) -> None:
        """Ends the process and does not wait for that. Idempotent."""
        self._cancelled.set()
        if self._process is not None:
            self._process.kill()

    def _run(self) -> None:
        command = (sys.executable, "-P", "-m", "gpudeck.tui.logs.finder", self._order)
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError as error:
            self._say(Told([], [], {}, problem=error.strerror or str(error), ended=True))
            return
        with self._process as process:
            if self._cancelled.is_set():
                process.kill()
            assert process.stdout is not None
            problem = ""
            for line in process.stdout:
                told = _told(line)
                problem = told.problem or problem
                self._say(told)
        if process.returncode and not problem:
            problem = "it takes too long: another expression may help"
        self._say(Told([], [], {}, problem=problem, ended=True))

    def _say(self, told: Told) -> None:
        if not self._cancelled.is_set():
            self._tell(told)


def _told(line: str) -> Told:
    said = json.loads(line)
    if "problem" in said:
        return Told([], [], {}, problem=said["problem"])
    return Told(said["after"], said["before"], {way: tuple(state) for way, state in said["reached"].items()})
