"""Says that no answer has come from the engine, where nothing can be shown before it."""

from __future__ import annotations

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from ..drawing.format import clean

PATIENCE_S = 0.3
"""An answer usually comes sooner; a line that flickers says nothing."""
WORDS = "waiting for the engine"
"""How long it has been silent, and what can be done, is told by the header."""


class Waiting(Static):
    """Takes a line while there is something to say, and none else."""

    DEFAULT_CSS = "Waiting { display: none; height: auto; padding: 0 1; color: $foreground-muted; }"

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._timer: Timer | None = None

    def begin(self) -> None:
        """It has been asked."""
        self.end()
        self._timer = self.set_timer(PATIENCE_S, lambda: self._say(WORDS))

    def end(self, why: str = "") -> None:
        """There is something to show now; *why* not: what the engine has said instead."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._say(why)

    def _say(self, text: str) -> None:
        self.update(Content(clean(text)))
        self.display = bool(text)
