"""A process of our own whose lines a daemon thread hears: what computes for ever, or hangs, holds up nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

Told = TypeVar("Told")


class LineProcess:
    """Runs from the start until it ends by itself or is cancelled."""

    def __init__(self, module: str, order: str, hear: Callable[[str], None], end: Callable[[int | str], None]) -> None:
        """*module*: of this package, run with *order* as its only word. *hear* gets each line, *end* at last the exit
        code, or why there is no process: on a thread of their own, and not after `cancel`."""
        self._command = (sys.executable, "-P", "-m", f"gpudeck.tui.{module}", order)
        self._hear = hear
        self._end = end
        self._cancelled = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="gpudeck-lines", daemon=True).start()

    def cancel(self) -> None:
        """Ends the process and does not wait for that. Idempotent."""
        self._cancelled.set()
        if self._process is not None:
            self._process.kill()

    def _run(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        except OSError as error:
            self._tell(self._end, error.strerror or str(error))
            return
        with self._process as process:
            if self._cancelled.is_set():
                process.kill()
            assert process.stdout is not None
            for line in process.stdout:
                self._tell(self._hear, line)
        self._tell(self._end, process.returncode)

    def _tell(self, whom: Callable[[Told], None], told: Told) -> None:
        if not self._cancelled.is_set():
            whom(told)
