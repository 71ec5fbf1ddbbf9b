"""One thing that users are told of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["failure", "retry", "round", "end", "halt", "gpu", "watch", "stop", "begin", "test"]
"""`begin` is not told: from there on another run is being told of."""
Level = Literal["info", "success", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Happening:
    """Frozen: it crosses from the engine's thread to that of the sender."""

    kind: Kind
    text: str
    """One line: what happened."""
    run: int
    level: Level = "info"
    key: str = ""
    """What it is known by within its run, so that it is told once; empty: it happens anew each time."""
    past: bool = False
    """Read from the deck's state at an engine's start: told only if the engine before should have."""
    task: str = ""
    attempt: int = 0
    log: str = ""
    digest: tuple[str, ...] = ()
    """The lines of its log that tell why it failed."""
    wall: float = 0.0
