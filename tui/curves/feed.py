"""The curves of one attempt at a time, read by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..link.ask import Deliver
from .lines import Curve, from_wire

Told = Callable[[tuple[Curve, ...], bool], None]
"""All curves as they are now, and whether more of them may come."""


class CurveFeed:
    """`show` an attempt; *told* is called through *deliver* whenever its curves have changed."""

    def __init__(self, deliver: Deliver, told: Told) -> None:
        self._deliver = deliver
        self._told = told
        self._order = ""
        self._reading: _Reading | None = None

    @property
    def reads(self) -> bool:
        """Something is shown."""
        return self._reading is not None

    def show(self, order: Mapping[str, Any] | None) -> None:
        """What `curve_reader` is to read; None: nothing more. The same order again changes nothing."""
        text = "" if order is None else json.dumps(order, sort_keys=True)
        if text == self._order:
            return
        self.close()
        self._order = text
        if text:
            self._reading = _Reading(text, self._take)

    def close(self) -> None:
        """Returns at once. Idempotent."""
        if self._reading is not None:
            self._reading.cancel()
        self._order, self._reading = "", None

    def _take(self, reading: _Reading, curves: tuple[Curve, ...], more: bool) -> None:
        def take() -> None:
            if reading is self._reading:
                self._told(curves, more)

        self._deliver(take)


class _Reading:
    """One process, and the thread that hears it."""

    def __init__(self, order: str, take: Callable[[_Reading, tuple[Curve, ...], bool], None]) -> None:
        self._take = take
        self._order = order
        self._cancelled = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        threading.Thread(target=self._run, name="gpudeck-curves", daemon=True).start()

    def cancel(self) -> None:
        self._cancelled.set()
        if self._process is not None:
            self._process.kill()

    def _run(self) -> None:
        command = (sys.executable, "-P", "-m", "gpudeck.tui.curves.reader", self._order)
        curves: tuple[Curve, ...] = ()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            with self._process as process:
                if self._cancelled.is_set():
                    process.kill()
                assert process.stdout is not None
                for line in process.stdout:
                    curves = from_wire(json.loads(line))
                    self._say(curves, more=True)
        except (OSError, ValueError):
            pass
        self._say(curves, more=False)

    def _say(self, curves: tuple[Curve, ...], *, more: bool) -> None:
        if not self._cancelled.is_set():
            self._take(self, curves, more)
