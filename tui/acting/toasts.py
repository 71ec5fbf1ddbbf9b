"""What is said in a corner of the screen: few at a time, none over a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from textual.notifications import Notification

MOST = 2
"""At a time; the oldest one makes room."""
_SHOWN_S = 4.0


@dataclass(frozen=True, slots=True)
class Toast:
    text: str
    error: bool = False
    kind: str = ""
    """A new one takes the place of the one before of the same kind; "": of the one that says the same."""

    def like(self, other: Toast) -> bool:
        return self.kind == other.kind and (bool(self.kind) or self.text == other.text)


class Toasts:
    """What is said while a question is open waits until that is answered."""

    def __init__(self, show: Callable[[Iterable[Notification]], None]) -> None:
        """*show* makes these, and no others, the ones that are seen."""
        self._show = show
        self._shown: list[tuple[Toast, Notification]] = []
        self._waiting: list[Toast] = []
        self._held = False

    def say(self, toast: Toast) -> None:
        if self._held:
            self._waiting = [*(each for each in self._waiting if not each.like(toast)), toast][-MOST:]
            return
        seen = [each for each in self._shown if not (each[1].has_expired or each[0].like(toast))]
        severity = "error" if toast.error else "information"
        made = Notification(toast.text, severity=severity, timeout=_SHOWN_S, markup=False)
        self._shown = [*seen, (toast, made)][-MOST:]
        self._show([each for _, each in self._shown])

    def hold(self) -> None:
        """A question is open: nothing may lie over its answers."""
        self._held = True
        self._waiting = [toast for toast, made in self._shown if not made.has_expired]
        self._shown = []
        self._show(())

    def release(self) -> None:
        """It has been answered."""
        self._held = False
        waiting, self._waiting = self._waiting, []
        for toast in waiting:
            self.say(toast)


def outcome(done: str, *, paused_until: str, undo_key: str) -> str:
    """What is said when something has been done. *paused_until*: the key that lets a paused deck go on; "": nothing
    keeps it. *undo_key*: "" where it cannot be taken back."""
    paused = f"the deck is paused: nothing starts until {paused_until}" if paused_until else ""
    return "; ".join(filter(None, (done, paused, f"{undo_key} takes it back" if undo_key else "")))


def came_to_nothing(left: Mapping[str, str]) -> str:
    """What is said when nothing became of what was asked for. *left*: why, by task."""
    name, why = next(iter(left.items()))
    others = f"; nothing was done to {len(left) - 1} others either" if len(left) > 1 else ""
    return f"{name} {why}{others}"


def but_not(left: Mapping[str, str]) -> str:
    """The end of what is said when something was done to some tasks only; "" where nothing was left."""
    if not left:
        return ""
    name, why = next(iter(left.items()))
    return f", but not {len(left)} of them: {name} {why}"
