"""Signals to an engine. In the foreground a first INT or TERM stops the tasks, a second kills them; an engine of its
own ends alone at a TERM or HUP, and its tasks run on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from .core.inputs import Shutdown
from .ending import Ending
from .ports import Sink

CI_GRACE_S = 5.0
"""GitHub's runner kills what is not gone ten seconds after its signal."""


class StopSignals:
    """Installs handlers, never SIG_IGN: what is ignored is inherited by every task."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        post: Sink,
        note: Callable[[str], None],
        ending: Ending,
        *,
        alone: bool,
    ) -> None:
        """*alone*: no terminal and no caller: signals end the engine and no task."""
        self._post = post
        self._note = note
        self._ending = ending
        for number in (signal.SIGQUIT, signal.SIGUSR1):
            loop.add_signal_handler(number, lambda: None)
        if alone:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, ending.leave, number.name)
            loop.add_signal_handler(signal.SIGINT, lambda: None)
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, note, "the terminal is gone; the deck goes on")

    def _stop(self, number: signal.Signals) -> None:
        again = self._ending.signal is not None
        if not again:
            self._ending.signal = number
            self._note(f"{number.name}: stopping the tasks; once more kills them at once")
        grace = CI_GRACE_S if os.environ.get("GITHUB_ACTIONS") == "true" else None
        self._post(Shutdown(now=again, by=number.name, grace_s=grace))
