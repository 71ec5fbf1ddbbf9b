"""A clock that a test moves."""

from __future__ import annotations


class StillClock:
    """Called, it tells the time, in seconds."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s
