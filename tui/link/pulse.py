"""Whether an engine still lives: told by what it sends, asked for where it sends nothing. Pure."""

from __future__ import annotations

QUIET_S = 5.0
"""An engine that has said nothing for so long is asked for a sign of life."""
PATIENCE_S = 5.0
"""One that has not answered by then is said to be silent."""
TICK_S = 1.0
"""How often it is said for how long, then."""


class Pulse:
    """Counts the seconds that were waited for in vain, not those of a clock: a screen that was stopped for an hour
    itself has not waited."""

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._asked_after_s: float | None = None

    @property
    def wait_s(self) -> float:
        """How long to wait for the next word."""
        if self._asked_after_s is None:
            return QUIET_S
        return TICK_S if self.silent_s else PATIENCE_S

    @property
    def silent_s(self) -> float:
        """For how long a question has not been answered; 0: there is nothing to worry about."""
        unanswered_s = 0.0 if self._asked_after_s is None else self._waited_s - self._asked_after_s
        return unanswered_s if unanswered_s >= PATIENCE_S else 0.0

    def waited(self, wait_s: float) -> bool:
        """Nothing has come for *wait_s*. True: it is to be asked now."""
        self._waited_s += wait_s
        if self._asked_after_s is None and self._waited_s >= QUIET_S:
            self._asked_after_s = self._waited_s
            return True
        return False

    def heard(self) -> bool:
        """Anything has come. True: it had been silent."""
        was_silent = bool(self.silent_s)
        self._waited_s, self._asked_after_s = 0.0, None
        return was_silent
